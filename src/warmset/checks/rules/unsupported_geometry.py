"""Models whose blocks the native tier cannot address."""

import re
from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule
from warmset.servers import Version

# model pattern, last version known to fail, why
_KNOWN = (
    (
        re.compile(r"glm-?5\.3-?flash", re.IGNORECASE),
        Version(0, 28, 99),
        "a group has blocks of 4 tokens and hashes cover 64",
    ),
)
_LOG = re.compile(r"tokens_per_block % (?:self\.)?tokens_per_hash")


def check(case: Case) -> Iterator[Answer]:
    """Known models by name, and the assertion in a log."""
    log = case.log
    if case.vllm and log is not None and (found := log.search(_LOG)) is not None:
        yield Hit(
            "the tier cannot address this model: a group's block is smaller than the unit of the hash",
            found[1],
        )
    native = case.native
    if native is None:
        return
    for pattern, last, why in _KNOWN:
        if pattern.search(case.model.name) and case.version <= last:
            at = native.word if case.kv.by_flag else native.key(native.name)
            yield Hit(
                f"{case.engine} stops with an assertion on `{case.model.name[-60:]}`: {why}",
                at,
                fix=f"vLLM newer than {last.major}.{last.minor}, or no tier",
            )


RULE = Rule(
    "unsupported-geometry",
    "error",
    "A model whose blocks the native tier cannot address.",
    "OffloadingConnector wants every group's block to be a whole number of hash units. Models with much smaller "
    "blocks in "
    "one group fail the assertion `tokens_per_block % tokens_per_hash`.",
    "vllm serve GLM-5.3-Flash --kv-offloading-size 64   # vLLM 0.28",
    "vllm serve GLM-5.3-Flash   # until the group sizes are supported",
    "vLLM 0.28 and older",
    "vLLM issue 54413",
    check,
)
