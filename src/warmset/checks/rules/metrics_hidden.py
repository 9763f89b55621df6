"""Meters that are switched off."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule


def check(case: Case) -> Iterator[Answer]:
    """Offload without the metrics that would show whether it works."""
    if not case.offloads or not case.launch.complete:
        return
    if case.vllm:
        flag = case.launch.flag("--disable-log-stats")
        if flag is not None and case.launch.enabled("disable-log-stats") is not False:
            yield Hit(
                "`--disable-log-stats` also empties /metrics: nothing shows whether the tier works",
                flag.word,
                "warning",
                "remove `--disable-log-stats`",
            )
        connector = case.in_process
        if (
            connector is not None
            and "PROMETHEUS_MULTIPROC_DIR" not in case.launch.env
            and case.launch.origin not in ("helm", "operator", "log")
        ):
            yield Hit(
                (
                    "/metrics has no lmcache:* series without PROMETHEUS_MULTIPROC_DIR (vLLM's external_prefix_cache "
                    "counters are there)"
                ),
                connector.key(connector.name),
                fix="PROMETHEUS_MULTIPROC_DIR=/tmp/prometheus, an empty directory",
            )
    elif case.sglang and not case.launch.has("--enable-metrics"):
        flag = case.launch.flag("--enable-hierarchical-cache", "--enable-lmcache")
        if flag is not None:
            yield Hit(
                "SGLang has no /metrics without `--enable-metrics`: nothing shows whether the tier works",
                flag.word,
                fix="--enable-metrics --enable-cache-report",
            )


RULE = Rule(
    "metrics-hidden",
    "note",
    "The meters of the tier are off.",
    "A tier can be attached and do nothing. Its counters are the only proof of work: SGLang needs "
    "`--enable-metrics`, LMCache "
    "inside the engine PROMETHEUS_MULTIPROC_DIR, and vLLM must not have `--disable-log-stats`.",
    "python -m sglang.launch_server --model-path M --enable-hierarchical-cache",
    "python -m sglang.launch_server --model-path M --enable-hierarchical-cache --enable-metrics",
    "all versions",
    "LMCache issue 729; SGLang server_args.py; vLLM v1/metrics",
    check,
)
