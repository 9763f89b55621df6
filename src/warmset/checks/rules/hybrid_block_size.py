"""A chunk in tokens where the groups of a model have blocks of different sizes."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule, Severity


def check(case: Case) -> Iterator[Answer]:
    """`block_size` in the connector's keys with a hybrid model or speculative decoding."""
    native = case.native
    if (
        native is None
        or "block_size" not in native.extra
        or case.kv.by_flag
        or "blocks_per_chunk" in native.extra
    ):
        return
    draft = case.launch.flag("--speculative-config")
    if not case.model.hybrid and draft is None:
        return
    why = (
        f"`{case.model.name[-60:]}` has several KV-cache groups"
        if case.model.hybrid
        else "the draft model has KV-cache groups of its own"
    )
    size, device = native.extra.get("block_size"), case.launch.whole("--block-size", default=16)
    blocks = max(1, size // device) if isinstance(size, int) and not isinstance(size, bool) else 1
    can = "blocks_per_chunk" in case.engine.extra_config_keys("OffloadingConnector")
    severity: Severity = (
        "error" if case.since("0.22.0") and (case.model.hybrid or draft is not None) else "warning"
    )
    yield Hit(
        (
            f"a chunk of {size} tokens is ambiguous: {why}, and the server stops with `all groups must have the same "
            f"block size`"
        ),
        native.key("block_size"),
        severity,
        f'"blocks_per_chunk": {blocks}'
        if can
        else "drop `block_size` (`blocks_per_chunk` came with vLLM 0.26)",
    )


RULE = Rule(
    "hybrid-block-size",
    "error",
    "`block_size` of the tier with a model of several groups.",
    "`block_size` in the connector's keys counts tokens; where groups have blocks of different sizes that is no "
    "whole "
    "number of blocks for all of them, and the server stops with an assertion. `blocks_per_chunk` (vLLM 0.26) counts "
    "blocks and fits every group. The two exclude each other.",
    'vllm serve gemma-4-31B-it … {"block_size":512,"cpu_bytes_to_use":26843545600}',
    'vllm serve gemma-4-31B-it … {"blocks_per_chunk":32,"cpu_bytes_to_use":26843545600}',
    "vLLM 0.22 and newer",
    "vLLM issues 48919, 48635, PR 48878",
    check,
)
