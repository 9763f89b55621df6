"""Chunks so large that a prompt holds few of them."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule
from warmset.units import format_counted


def check(case: Case) -> Iterator[Answer]:
    """LMCache's chunk against the longest prompt: only full ones are stored, and the last token is computed."""
    longest = case.launch.number("--max-model-len")
    chunk = case.lmcache.get("chunk_size")
    if (
        not case.vllm
        or longest is None
        or not (case.in_process is not None or case.lmcache.remote is not None)
    ):
        return
    size = int(case.lmcache.number("chunk_size", 256))
    if size <= 0:
        return
    full = int(longest - 1) // size
    if full < 8 and not case.lmcache.on("save_unfull_chunk", False):
        at = (
            chunk.at
            if chunk is not None
            else (case.launch.flag("--max-model-len") or case.launch.flags["--max-model-len"][-1]).word
        )
        yield Hit(
            (
                f"at most {format_counted(full, 'full chunk')} of {size} tokens {'fits' if full == 1 else 'fit'} a "
                f"request of {int(longest):,}: what fills no chunk is never reused"
            ),
            at,
            "warning" if full == 0 else "note",
            f"LMCACHE_CHUNK_SIZE={max(16, int(longest) // 16 // 16 * 16)}",
        )


RULE = Rule(
    "few-chunks",
    "note",
    "Few chunks fit a request.",
    "LMCache stores and finds whole chunks (256 tokens by default). Prompts shorter than one chunk never hit, and of "
    "short prompts a large part is computed again.",
    "--max-model-len 1024 with LMCACHE_CHUNK_SIZE=256",
    "LMCACHE_CHUNK_SIZE=64",
    "all versions of LMCache; save_unfull_chunk was on in 0.3.7",
    "vLLM issue 42625; LMCache PR 4110",
    check,
)
