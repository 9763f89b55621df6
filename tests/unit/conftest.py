"""Whole pages of metrics, as a server of a given version exports them."""

import math
from collections.abc import Callable, Mapping, Sequence

import pytest

from warmset.servers import Engine, engine

SECONDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000)
RECORDED = engine("vllm@0.32")
# vLLM 0.8.5 lists them for its engine of before V1.
V0 = (
    "cpu_prefix_cache_hit_rate",
    "cpu_cache_usage_perc",
    "gpu_prefix_cache_hit_rate",
    "num_requests_swapped",
)
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


def always(target: Engine, recorded: Sequence[frozenset[str]]) -> frozenset[str]:
    """The families that the version exports whatever is configured, by the pages of a real server.

    Of what the recorded version does not have, older families count as always exported and newer ones do not.
    Nothing is recorded of SGLang: all of its families count.
    """
    names = {m.name for m in target.metrics() if m.shown}
    if target.server != RECORDED.server:
        return frozenset(names)
    then = {m.name for m in RECORDED.metrics()}
    unrecorded = set() if target.version > RECORDED.version else names - then - {f"vllm:{n}" for n in V0}
    return frozenset(unrecorded | names & frozenset.intersection(*recorded))


@pytest.fixture(scope="session")
def whole_page(recorded_families: list[frozenset[str]]) -> Callable[..., str]:
    """Writes every metric that the version always has at zero, and those that are given at their values."""

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
        shown = always(target, recorded_families)
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
            if rows is None and seen is None and (name not in shown or name.endswith("cache_config_info")):
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
