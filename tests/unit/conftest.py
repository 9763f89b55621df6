"""Whole pages of metrics, as a server of a given version exports them."""

import math
from collections.abc import Callable, Mapping, Sequence

import pytest

from warmset.servers import engine

SECONDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000)
# Exported only where something is configured.
CONDITIONAL = (
    "kv_offload",
    "simple_kv",
    "nixl",
    "mooncake",
    "hf3fs",
    "hisparse",
    "umbp",
    "lmcache",
    "kv_block",
    "spec_decode",
)
CONDITIONAL += ("cpu_prefix", "cpu_cache", "swapped", "gpu_prefix_cache_hit_rate")
LABELS = 'engine="0",model_name="m"'


def histogram(name: str, labels: str, values: Sequence[float], bounds: Sequence[float]) -> list[str]:
    lines = []
    for bound in (*bounds, math.inf):
        le = "+Inf" if bound == math.inf else repr(float(bound))
        lines.append(f'{name}_bucket{{{labels},le="{le}"}} {float(sum(1 for v in values if v <= bound))}')
    return [
        *lines,
        f"{name}_count{{{labels}}} {float(len(values))}",
        f"{name}_sum{{{labels}}} {float(sum(values))}",
    ]


@pytest.fixture(scope="session")
def whole_page() -> Callable[..., str]:
    """Writes every metric of the version at zero, and those that are given at their values."""

    def write(
        version: str,
        values: Mapping[str, float],
        observed: Mapping[str, Sequence[float]] | None = None,
        *,
        info: str = "",
        labels: str = LABELS,
        types: bool = True,
        start: float | None = 1.7e9,
    ) -> str:
        target, observed = engine(version), observed or {}
        given: dict[str, list[tuple[str, float]]] = {}
        for key, value in values.items():
            name, _, own = key.partition("{")
            given.setdefault(name, []).append((own.rstrip("}"), value))
        lines = (
            []
            if start is None
            else ["# TYPE process_start_time_seconds gauge", f"process_start_time_seconds {start}"]
        )
        for metric in target.metrics():
            name, rows = metric.name, given.pop(metric.name, None)
            seen = observed.get(name.partition(":")[2])
            hidden = not metric.shown or name.partition(":")[2].startswith(CONDITIONAL)
            if rows is None and seen is None and (hidden or name.endswith("cache_config_info")):
                continue
            if types:
                lines.append(f"# TYPE {name} {metric.type}")
            if rows is not None:
                lines += [f"{name}{{{labels}{',' + own if own else ''}}} {value}" for own, value in rows]
            elif metric.type == "histogram":
                lines += histogram(name, labels, seen or (), SECONDS if name.endswith("seconds") else TOKENS)
            else:
                lines.append(f"{name}{{{labels}}} 0.0")
        for name, rows in given.items():
            lines += [f"{name}{{{labels}{',' + own if own else ''}}} {value}" for own, value in rows]
        if info:
            lines.append(f"{target.server}:cache_config_info{{{labels},{info}}} 1.0")
        return "\n".join(lines) + "\n"

    return write
