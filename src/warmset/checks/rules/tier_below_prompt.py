"""A host tier that cannot hold one prompt, or the prompts in flight."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Missing, Rule
from warmset.checks.text import Spot
from warmset.units import GIB, format_bytes, format_counted

_SMALLEST_BYTES = GIB


def check(case: Case) -> Iterator[Answer]:
    """The tier in tokens against the longest prompt, and against all prompts at once."""
    longest = case.launch.number("--max-model-len", "--context-length")
    for tier in case.tiers:
        lower = has_lower_tier(case)
        per_token = case.model.bytes_per_token
        if per_token is None and case.log is not None:
            per_token = _rate(case)
        if tier.kind not in ("native", "simple", "lmcache") or case.launch.server == "lmcache-server":
            continue
        if per_token is None or longest is None:
            if lower and tier.node_bytes < _SMALLEST_BYTES:
                yield _staging(
                    tier.at,
                    f"{format_bytes(tier.node_bytes)} hold a few thousand tokens at most",
                    per_token,
                    20_000,
                )
            else:
                missing = "bytes per token" if per_token is None else "longest prompt (--max-model-len)"
                yield Missing(missing, "whether the tier holds the longest prompt")
            continue
        tokens = int(tier.node_bytes / tier.replicas / per_token)
        if tokens < longest:
            words = f"{format_bytes(tier.node_bytes)} hold {tokens:,} tokens and a prompt may have {int(longest):,}"
            if lower:
                yield _staging(tier.at, words, per_token, int(longest))
            else:
                yield Hit(
                    f"{words}: the tier cannot hold one prompt", tier.at, "warning", _fix(per_token, longest)
                )
            continue
        running = case.launch.number("--max-num-seqs")
        if running and tokens < running * longest and tier.node_bytes < 8 * _SMALLEST_BYTES:
            needed = running * longest * per_token
            yield Hit(
                f"{format_counted(running, 'prompt')} of {int(longest):,} tokens take{'s' * (running == 1)} "
                f"{format_bytes(needed)}, more than the "
                f"pool of "
                f"{format_bytes(tier.node_bytes)}: prompts in flight push each other out",
                tier.at,
                "warning",
                _fix(per_token, running * longest),
            )


def has_lower_tier(case: Case) -> bool:
    """Whether anything lies below the host tier."""
    native = case.native
    if native is not None and (native.tiers or "secondary_tiers" in native.extra):
        return True
    return case.in_process is not None and (case.lmcache.disk is not None or case.lmcache.remote is not None)


def _rate(case: Case) -> float | None:
    log = case.log
    if log is None or log.pool_tokens is None or log.pool_bytes_per_rank is None or case.model.hybrid:
        return None
    return log.pool_bytes_per_rank[0] * max(case.launch.ranks, log.pool_ranks) / max(1, log.pool_tokens[0])


def _staging(at: Spot, words: str, per_token: float | None, longest: int) -> Hit:
    fix = _fix(per_token, longest) if per_token else "a host tier that holds several of the longest prompts"
    message = f"{words}: what lies below is reached only through the host tier, so disk hits are impossible"
    return Hit(message, at, "error", fix)


def _fix(per_token: float, tokens: float) -> str:
    return f"at least {-(-int(per_token * tokens * 2) // 2**20):,} MiB (two such prompts)"


RULE = Rule(
    "tier-below-prompt",
    "error",
    "The host tier is smaller than one prompt.",
    "Blocks of a lower tier are promoted to the host tier and loaded from there. A host tier below one prompt "
    "therefore "
    "makes every hit on disk impossible: lookups promote block after block and push out what they promoted before. "
    "With LMCache the pool also stages what is in flight.",
    '"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":268435456,"secondary_tiers":[{"type":"fs", …}]',
    '"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":34359738368,"secondary_tiers":[{"type":"fs", …}]',
    "TieringOffloadingSpec, LMCache with a disk or remote tier",
    "vLLM issue 52784 (comment of September 2026); LMCache issue 1330",
    check,
)
