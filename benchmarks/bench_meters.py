"""Reading speed of the exposition parser, and of a fleet's window and verdict."""

import time
from collections.abc import Iterator

from warmset.meters import judge, meters, scrape, window
from warmset.meters.exposition import parse

TARGET = 200_000


def _page(engines: int) -> str:
    """A page of the size and shape of real servers: histograms, labels, comments."""
    lines = []
    for number in range(60):
        name = f"vllm:metric_{number}_total"
        lines += [f"# HELP {name} Something counted.", f"# TYPE {name} counter"]
        lines += [f'{name}{{engine="{e}",model_name="llama"}} {number * 1000.0}' for e in range(engines)]
    for number in range(20):
        name = f"vllm:latency_{number}_seconds"
        lines += [f"# HELP {name} Something timed.", f"# TYPE {name} histogram"]
        for e in range(engines):
            for le in range(22):
                lines.append(f'{name}_bucket{{engine="{e}",le="{le / 10}",model_name="llama"}} {le * 10.0}')
            lines.append(f'{name}_bucket{{engine="{e}",le="+Inf",model_name="llama"}} 220.0')
            lines.append(f'{name}_count{{engine="{e}",model_name="llama"}} 220.0')
            lines.append(f'{name}_sum{{engine="{e}",model_name="llama"}} 110.5')
    return "\n".join(lines) + "\n"


def _all_different(samples: int) -> str:
    """The worst page: no set of labels stands on it twice."""
    rest = 'instance="10.0.0.1:8000",job="vllm",model_name="llama"'
    return "".join(f'vllm:some_total{{engine="{n}",{rest}}} {n}.0\n' for n in range(samples))


def _speed(text: str) -> tuple[int, float]:
    """Samples on the page, and samples per second of the best of three readings."""
    best = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        page = parse(text)
        best = min(best, time.perf_counter() - began)
    samples = sum(map(len, page.samples.values()))
    return samples, samples / best


def main() -> Iterator[tuple[str, float, str]]:
    """Pages of 1, 64 and 500 engines, and of label sets that never repeat; the largest as two scrapes, to a verdict."""
    text, unit = "", f"samples/s (bound: {TARGET:,})"
    for engines in (1, 64, 500):
        text = _page(engines)
        samples, speed = _speed(text)
        yield f"meters: read a page of {samples:,} samples", speed, unit
    samples, speed = _speed(_all_different(100_000))
    yield (
        f"meters: read {samples:,} samples, no label set twice",
        speed,
        "samples/s (no server has such a page)",
    )
    began = time.perf_counter()
    judge(meters(window(scrape(text), scrape(text))))
    yield "meters: two scrapes of 500 engines to a verdict", time.perf_counter() - began, "seconds"
