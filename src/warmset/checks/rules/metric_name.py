"""PromQL over metrics that the version does not export."""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule, replacing
from warmset.checks.text import Word
from warmset.servers import Engine, inspected
from warmset.servers import engine as load_engine

_NAME = re.compile(r"\b(vllm|lmcache|sglang):([a-z][a-z0-9_]*)")
_RATIO = "rate(vllm:prefix_cache_hits_total[5m]) / rate(vllm:prefix_cache_queries_total[5m])"
_BETTER = {
    "vllm:gpu_prefix_cache_hit_rate": _RATIO,
    "vllm:cpu_prefix_cache_hit_rate": (
        "rate(vllm:external_prefix_cache_hits_total[5m]) / rate(vllm:prompt_tokens_total[5m])"
    ),
    "vllm:gpu_prefix_cache_hits_total": "vllm:prefix_cache_hits_total",
    "vllm:gpu_prefix_cache_queries_total": "vllm:prefix_cache_queries_total",
    "vllm:gpu_cache_usage_perc": "vllm:kv_cache_usage_perc",
    "vllm:cpu_cache_usage_perc": "bytes stored and loaded; no gauge of residency exists",
    "vllm:num_requests_swapped": "nothing: the V1 engine does not swap",
    "vllm:time_per_output_token_seconds": "vllm:inter_token_latency_seconds",
    "lmcache:cache_hit_rate": "lmcache:retrieve_hit_rate or lmcache:lookup_hit_rate",
}
_RECORDED = re.compile(r":(rate|sum|avg|max|min|ratio|p\d\d)")


def check(case: Case) -> Iterator[Answer]:
    """Every name in rule files and dashboards; once for each server version."""
    if not case.inputs.queries or case.launch is not (case.inputs.launches or (case.launch,))[0]:
        return
    for word in case.inputs.queries:
        for match in _NAME.finditer(word.value):
            name = match[0]
            after = word.value[match.end() : match.end() + 1]
            if after == ":" or _RECORDED.search(name):
                continue
            engine = _engine(case, match[1])
            if engine is None or _exported(engine, name):
                continue
            yield _hit(engine, name, word)


def _engine(case: Case, server: str) -> Engine | None:
    if server == case.engine.server:
        return case.engine
    return case.lmcache_engine if server == "lmcache" else load_engine(server)


def _exported(engine: Engine, name: str) -> bool:
    if engine.metric_named(name) is not None or engine.metric_named(name + "_total") is not None:
        return True
    # Tables of LMCache and SGLang are of a few releases: a metric of any of them is no slip.
    return engine.server != "vllm" and name in _all_names(engine.server)


@cache
def _all_names(server: str) -> frozenset[str]:
    names: set[str] = set()
    for version in inspected(server):
        for fact in load_engine(f"{server}@{version}").metrics():
            names.update((fact.name, fact.name + "_bucket", fact.name + "_sum", fact.name + "_count"))
    return frozenset(names)


def _hit(engine: Engine, name: str, word: Word) -> Hit:
    base = re.sub(r"_(bucket|sum|count|created)$", "", name)
    better = _BETTER.get(base) or _BETTER.get(base + "_total") or engine.replaced_by(base)
    at = word.find(name)
    gone = engine.removed(base)
    if better or gone:
        simple = (
            better is not None and re.fullmatch(r"[a-z]+:[a-z0-9_]+", better) is not None and base == name
        )
        return Hit(
            f"`{name}` is not exported by {engine}"
            + (f" (last by {gone.last})" if gone else "")
            + ": the panel or rule stays empty",
            at,
            fix=better,
            edit=replacing(word, name, better) if simple and better is not None else None,
        )
    near = get_close_matches(base, [m.name for m in engine.metrics()], n=1, cutoff=0.85)
    return Hit(
        f"`{name}` is no metric of {engine}",
        at,
        "error" if near else "warning",
        near[0] if near else None,
        "high" if near else "medium",
    )


RULE = Rule(
    "metric-name",
    "error",
    "PromQL over a metric that does not exist.",
    "Metrics are renamed and dropped between versions: vllm:gpu_prefix_cache_hit_rate went with the V0 engine, "
    "gpu_cache_usage_perc became kv_cache_usage_perc, lmcache:cache_hit_rate stands in documentation only. A "
    "query over "
    "such a name gives no data, and an alert on it never fires.",
    "vllm:gpu_prefix_cache_hit_rate > 0.5",
    _RATIO,
    "by version, see the tables of metrics",
    "vLLM v1/metrics/loggers.py; production-stack PR 989; LMCache PR 1437",
    check,
)
