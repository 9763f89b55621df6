"""What the recorder is told in `kv_connector_extra_config`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warmset.units import GIB, MIB

DEVICE_POOLS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


@dataclass(frozen=True, slots=True)
class RecorderSettings:
    """Where to record, and the bounds.

    Attributes:
        path: the trace; .gz and .zst are compressed.
        max_bytes: bound of all files together; the oldest are removed.
        files: into how many files they are split.
        curve_accesses: block accesses that the live curve keeps; beyond, it follows a sample of the blocks.
        backlog_bytes: bound of what waits for the writer; beyond, requests are left out and counted.
        device_pools: sizes of the live curve, in device pools.
    """

    path: Path
    max_bytes: int = GIB
    files: int = 4
    curve_accesses: int = 8_000_000
    backlog_bytes: int = 64 * MIB
    device_pools: tuple[float, ...] = DEVICE_POOLS

    @classmethod
    def parse(cls, extra: Mapping[str, Any], *, replica: int | None = None) -> "RecorderSettings":
        """Read the keys; ValueError for what is missing, unknown or of the wrong kind.

        Each replica of data parallelism records to a file of its own.
        """
        known = {"path", "max_bytes", "files", "curve_accesses", "backlog_bytes"}
        unknown = set(extra) - known
        if unknown:
            raise ValueError(
                f"the recorder knows no `{min(unknown)}`; its keys are {', '.join(sorted(known))}"
            )
        path = extra.get("path")
        if not isinstance(path, str) or not path:
            raise ValueError("the recorder needs a `path` in kv_connector_extra_config")
        numbers: dict[str, int] = {}
        for key in known - {"path"}:
            if key in extra:
                value = extra[key]
                if type(value) is not int or value < 1:
                    raise ValueError(f"the recorder's `{key}` is `{value}`, not a positive whole number")
                numbers[key] = value
        place = Path(path).absolute()
        if not place.parent.is_dir():
            raise ValueError(f"the recorder's `path` is in `{place.parent}`, which is not a directory")
        if replica is not None:
            place = beside(place, f"dp{replica}")
        defaults = cls(place)
        return cls(
            place,
            numbers.get("max_bytes", defaults.max_bytes),
            numbers.get("files", defaults.files),
            numbers.get("curve_accesses", defaults.curve_accesses),
            numbers.get("backlog_bytes", defaults.backlog_bytes),
        )


def beside(path: Path, word: str) -> Path:
    """`traffic.jsonl.gz` with a word becomes `traffic.WORD.jsonl.gz`, so that readers still know its kind."""
    stem, dot, rest = path.name.partition(".")
    return path.with_name(f"{stem}.{word}{dot}{rest}")


def live_path(path: Path) -> Path:
    """The small file beside the trace that holds the current curve."""
    return path.with_name(path.name + ".live.json")
