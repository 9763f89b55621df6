"""A written connector that the size flag silently replaces."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule


def check(case: Case) -> Iterator[Answer]:
    """`--kv-transfer-config` beside `--kv-offloading-size`."""
    kv = case.kv
    if not case.vllm or not kv.by_flag or kv.written is None or kv.size is None or not kv.connectors:
        return
    effective = kv.connectors[0]
    if effective.name != kv.written.name:
        yield Hit(
            f"`--kv-offloading-size` silently replaces `{kv.written.name}`: the server runs `{effective.name}`",
            kv.size.word,
            fix="keep one of the two: remove `--kv-offloading-size`, or `--kv-transfer-config`",
        )
        return
    written = kv.written.extra.get("cpu_bytes_to_use")
    if isinstance(written, (int, float)) and kv.size_bytes is not None and int(written) != kv.size_bytes:
        yield Hit(
            f"`cpu_bytes_to_use` ({written:,.0f}) is overwritten by `--kv-offloading-size` ({kv.size_bytes:,} bytes)",
            kv.written.key("cpu_bytes_to_use"),
            "warning",
            "keep one of the two",
        )


RULE = Rule(
    "connector-replaced",
    "error",
    "The size flag silently replaces the connector that was written.",
    "`--kv-offloading-size` sets `kv_connector` itself, whatever `--kv-transfer-config` says, and `kv_role` to "
    "kv_both. "
    "Nothing in the log says that the written connector is gone. The production-stack chart does this too where "
    "`lmcacheConfig` is on and `extraArgs` holds the size flag.",
    (
        "vllm serve M --kv-offloading-size 40 --kv-transfer-config "
        '\'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\''
    ),
    "vllm serve M --kv-offloading-size 40",
    "vLLM 0.11.1 and newer",
    "vLLM config/vllm.py, run on 0.32",
    check,
)
