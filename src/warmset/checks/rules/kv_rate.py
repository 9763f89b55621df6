"""Bytes per token worked out from a log."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule


def check(case: Case) -> Iterator[Answer]:
    """Pool bytes over pool tokens: right for plain attention, meaningless with several groups."""
    log = case.log
    if log is None or log.pool_tokens is None or log.pool_bytes_per_rank is None or not log.pool_tokens[0]:
        return
    ranks = max(1, log.pool_ranks, case.launch.ranks)
    rate = log.pool_bytes_per_rank[0] * ranks / log.pool_tokens[0]
    tokens, word = log.pool_tokens
    if case.model.hybrid:
        yield Hit(
            f"{rate / 1024:.0f} KiB per token, the quotient of these lines, is not valid: with several KV-cache "
            f"groups "
            f"{tokens:,} tokens are a number of longest requests, and part of a request does not grow with its "
            f"tokens",
            word,
            fix="warmset footprint MODEL",
            confidence="low",
        )
    elif case.model.kind is not None or case.launch.model is not None:
        yield Hit(
            f"{rate:,.0f} bytes ({rate / 1024:.1f} KiB) per token, from the pool's bytes and tokens",
            word,
            confidence="high" if case.model.kind else "medium",
        )


RULE = Rule(
    "kv-rate",
    "note",
    "What a token costs, by the log.",
    "`Available KV cache memory` over `GPU KV cache size` is the cost of a token only where all layers keep "
    "every token. "
    "With windows, recurrent state or compressed groups the second line is a concurrency times the longest request.",
    "7.7 GiB / 150,000 tokens on DeepSeek-V4: 55 KiB per token is not a rate",
    "warmset footprint deepseek-v4-pro --context 121344",
    "all versions",
    "vLLM issues 51041, 25350",
    check,
)
