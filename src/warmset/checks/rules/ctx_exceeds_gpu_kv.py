"""A context that the device pool cannot hold: no offload tier changes that."""

import re
from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule

_NEEDS = re.compile(
    r"(?:max(?:imum)? (?:seq(?:uence)? len(?:gth)?|model len(?:gth)?)\D{0,20}(?P<length>\d{3,9})[^\n]{0,60}?)?"
    r"(?P<need>\d+(?:\.\d+)?) ?GiB(?: of)? ?(?:GPU )?KV[^\n]{0,120}?"
    r"(?:larger than|exceeds|only|but)[^\n]{0,80}?(?P<have>\d+(?:\.\d+)?) ?GiB[^\n]{0,400}",
    re.IGNORECASE,
)
_ESTIMATE = re.compile(
    r"estimated max(?:imum)?(?: model| context)? len(?:gth)?\D{0,20}(\d{2,9})", re.IGNORECASE
)


def check(case: Case) -> Iterator[Answer]:
    """The start-up refusal in the log, told apart from anything that offload could cure."""
    log = case.log
    if log is None or not case.vllm:
        return
    hits = ((start, _NEEDS.search(line)) for start, line in log.lines_with("GiB", "KV"))
    start, match = next(((s, m) for s, m in hits if m is not None), (0, None))
    if match is None:
        return
    word = log.word(start + match.start(), start + match.end())
    need, have = float(match["need"]), float(match["have"])
    length = int(match["length"]) if match["length"] else case.launch.whole("--max-model-len", default=0)
    estimate = _ESTIMATE.search(log.short)
    fits = int(estimate[1]) if estimate else int(length * have / need) if need and length else 0
    rate = f" ({need * 2**20 / length:,.0f} KiB per token)" if length else ""
    yield Hit(
        f"one request of {length or 'maximum'} tokens needs {need:g} GiB of KV cache on the device{rate} and "
        f"there are "
        f"{have:g} GiB: a running request must fit the device, and an offload tier cannot raise the context",
        word,
        fix=f"--max-model-len {fits}" if fits else "lower --max-model-len",
    )


RULE = Rule(
    "ctx-exceeds-gpu-kv",
    "error",
    "The longest request does not fit the device pool; offload is not the cure.",
    "vLLM compares one request of the maximum length with the KV memory of one worker. A tier in host memory "
    "holds evicted "
    "prefixes; every block of a running request stays on the device. Lower `--max-model-len` to what the log "
    "estimates, raise `--gpu-memory-utilization`, use an fp8 KV cache, or use more devices.",
    "ValueError: … (4.50 GiB KV cache is needed, which is larger than the available KV cache memory (3.58 GiB)…",
    "vllm serve M --max-model-len 26032",
    "all versions of vLLM",
    "LMCache issue 1372; vLLM issue 43755",
    check,
)
