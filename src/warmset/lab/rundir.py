"""The directory of a run: scrapes that `measure` reads, a trace that `curve` reads, logs and requests."""

import csv
import gzip
import os
import time
from collections.abc import Sequence
from pathlib import Path

from warmset.errors import InputError
from warmset.lab.predict import Names
from warmset.lab.replay import Answer
from warmset.lab.workload import Workload, each, symbolic
from warmset.traces.recorder_format import encode_header, encode_request


def cache_dir() -> Path:
    """Where the lab keeps models and runs: XDG_CACHE_HOME or ~/.cache, under warmset."""
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "warmset"


def make_run_dir(wanted: Path | None, name: str) -> Path:
    """Create the directory of a run; a directory that was asked for must be new or empty."""
    try:
        return _new(name) if wanted is None else _wanted(wanted)
    except OSError as error:
        raise InputError(
            f"no run directory can be made: {error.strerror}: `{error.filename}`",
            hint="give `--run-dir` a place that can be written",
        ) from None


def _wanted(path: Path) -> Path:
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InputError(f"run directory `{path}` is not empty", hint="name one that does not exist")
    path.mkdir(parents=True, exist_ok=True)
    return path


def _new(name: str) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for number in range(1000):
        path = cache_dir() / "lab" / f"{name}-{stamp}-{os.getpid()}{f'-{number}' if number else ''}"
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        return path
    raise InputError(f"no new run directory in `{cache_dir() / 'lab'}`", hint="give `--run-dir`")


def write_trace(path: Path, workload: Workload, answers: Sequence[Answer], block_tokens: int) -> None:
    """The traffic as it was sent, in blocks of the server."""
    names = Names()
    with gzip.open(path, "wb") as out:
        out.write(encode_header(block_tokens, salted=False, about=f"warmset lab, {workload.name}"))
        for request, answer in zip(each(workload), answers, strict=True):
            out.write(
                encode_request(
                    answer.start_seconds,
                    request.input_tokens,
                    request.output_tokens,
                    names.chain(symbolic(request, workload.seed), block_tokens),
                    session=request.session,
                )
            )


def write_requests(
    path: Path, answers: Sequence[Answer], predicted: Sequence[tuple[int, int]] | None
) -> None:
    """One row per request: what was sent, what was cached, and what was predicted."""
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(
            [
                "request",
                "start_seconds",
                "latency_seconds",
                "input_tokens",
                "output_tokens",
                "cached_tokens",
                "predicted_device_hit_tokens",
                "predicted_external_hit_tokens",
            ]
        )
        for number, answer in enumerate(answers):
            device, host = predicted[number] if predicted is not None else ("", "")
            writer.writerow(
                [
                    number,
                    f"{answer.start_seconds:.6f}",
                    f"{answer.latency_seconds:.6f}",
                    len(answer.prompt),
                    len(answer.output),
                    "" if answer.cached_tokens is None else answer.cached_tokens,
                    device,
                    host,
                ]
            )
