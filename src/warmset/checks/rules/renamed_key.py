"""Connector keys of another version."""

from collections.abc import Iterator
from functools import cache

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule
from warmset.checks.kv import Connector
from warmset.servers import Version, inspected
from warmset.servers import engine as load_engine
from warmset.units import GIB


def check(case: Case) -> Iterator[Answer]:
    """Keys that another version of the same connector reads."""
    if not case.vllm or case.kv.by_flag:
        return
    for connector in case.kv.connectors:
        known = case.engine.extra_config_keys(connector.name)
        for key in connector.extra:
            if key in known or key.startswith("lmcache.") or connector.extra.get("spec_module_path"):
                continue
            versions = versions_reading(connector.name, key)
            if not versions or case.engine.connector(connector.name) is None:
                continue
            yield _hit(case, connector, key)


def _hit(case: Case, connector: Connector, key: str) -> Hit:
    versions = versions_reading(connector.name, key)
    older = versions[-1] < case.version
    if key == "num_cpu_blocks":
        if "cpu_bytes_to_use" in connector.extra:
            return Hit(
                "`num_cpu_blocks` is the key of vLLM 0.11 to 0.13 and ignored beside `cpu_bytes_to_use`",
                connector.key(key),
                "note",
                "remove `num_cpu_blocks`",
            )
        size = _bytes(case, connector)
        return Hit(
            f"`num_cpu_blocks` is the key of vLLM 0.11 to 0.13 (blocks per rank); {case.engine} wants "
            f"`cpu_bytes_to_use`, "
            f"bytes for the whole engine{_arithmetic(connector, case)}",
            connector.key(key),
            fix=f'"cpu_bytes_to_use": {size or "BYTES"}',
        )
    if key == "cpu_bytes_to_use":
        return Hit(
            f"`cpu_bytes_to_use` came with vLLM 0.14; {case.engine} wants `num_cpu_blocks`, blocks for each rank",
            connector.key(key),
            fix='"num_cpu_blocks": BLOCKS',
        )
    first = versions[0]
    new = case.engine.replaced_by(key) if older else None
    message = (
        f"`{key}` is read by vLLM {first}{' and newer' if not older else ' and a few after it'}; "
        f"{case.engine} ignores it silently"
    )
    return Hit(
        message, connector.key(key), "warning", f'"{new}"' if new else f"remove `{key}`, or use vLLM {first}"
    )


@cache
def versions_reading(connector: str, key: str) -> tuple[Version, ...]:
    """The inspected versions of vLLM whose connector reads a key."""
    return tuple(v for v in inspected("vllm") if key in load_engine(f"vllm@{v}").extra_config_keys(connector))


def _bytes(case: Case, connector: Connector) -> int | None:
    blocks, tokens = connector.extra.get("num_cpu_blocks"), _chunk(case, connector)
    per_token = case.model.bytes_per_token
    if isinstance(blocks, int) and tokens and per_token:
        return int(blocks * tokens * per_token)
    return None


def _chunk(case: Case, connector: Connector) -> int:
    size = connector.extra.get("block_size")
    return (
        size
        if isinstance(size, int) and not isinstance(size, bool)
        else case.launch.whole("--block-size", default=16)
    )


def _arithmetic(connector: Connector, case: Case) -> str:
    blocks, tokens = connector.extra.get("num_cpu_blocks"), _chunk(case, connector)
    if not isinstance(blocks, int):
        return ""
    size = _bytes(case, connector)
    shown = f" = {size / GIB:.2f} GiB" if size else " × bytes per token"
    return f": {blocks:,} × {tokens} tokens{shown}"


RULE = Rule(
    "renamed-key",
    "error",
    "A connector key of another version.",
    "kv_connector_extra_config is not validated: a key that the version does not read is ignored. "
    "`num_cpu_blocks` (blocks "
    "per rank, 0.11 to 0.13) became `cpu_bytes_to_use` (bytes for the engine, 0.14): with the wrong one of the "
    "two the "
    "server stops. `blocks_per_chunk` came with 0.26, `store_threshold` with 0.18.",
    '{"kv_connector":"OffloadingConnector", … {"num_cpu_blocks":1000}}   # vLLM 0.20',
    '{"kv_connector":"OffloadingConnector", … {"cpu_bytes_to_use":8388608000}}',
    "vLLM 0.14 renamed the size; others by version",
    "vLLM PR 24498; vLLM issue 42348",
    check,
)
