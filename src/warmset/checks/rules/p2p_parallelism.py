"""Peers whose blocks have different sizes."""

import re
from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule

_LOG = re.compile(r"rejecting peer connect[^\n]{0,300}block_len mismatch")


def check(case: Case) -> Iterator[Answer]:
    """The refusal in a log, and launches with p2p tiers and unequal tensor parallelism."""
    log = case.log
    if case.vllm and log is not None and (found := log.search(_LOG)) is not None:
        yield Hit(
            "peers have blocks of different sizes and refuse each other: the p2p tier is inert",
            found[1],
            fix="the same --tensor-parallel-size on all peers",
        )
    native = case.native
    if native is None or not any(t.get("type") == "p2p" for t in native.tiers):
        return
    others = {
        o.tensor_parallel
        for o in case.inputs.twins(case.launch)
        if "p2p" in str(o.flag("--kv-transfer-config"))
    }
    if len(others | {case.launch.tensor_parallel}) > 1:
        sizes = ", ".join(str(s) for s in sorted(others | {case.launch.tensor_parallel}))
        yield Hit(
            f"peers run with tensor parallel {sizes}: their blocks differ in size and they refuse each other",
            native.word.find('"p2p"'),
            fix="the same --tensor-parallel-size on all peers",
        )


RULE = Rule(
    "p2p-parallelism",
    "warning",
    "Peers that cannot exchange blocks.",
    "The p2p tier compares the size of a block with its peer. Another tensor-parallel size gives another row, "
    "and the peer is "
    "refused with `block_len mismatch`; external hits stay at zero.",
    "one engine with -tp 1 and one with -tp 2, both with a p2p tier",
    "the same -tp on all engines",
    "vLLM 0.25 and newer",
    "vLLM issue 56772",
    check,
)
