"""What happens to a request when its offloaded blocks are lost."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule, Severity

_POLICIES = ("fail", "recompute")


def check(case: Case) -> Iterator[Answer]:
    """A policy that is none, then the default `fail` with a tier that can lose blocks."""
    if not case.vllm or (default := case.engine.default("kv_load_failure_policy")) is None:
        return
    # The size flag keeps what a configuration without a connector says.
    fields = case.kv.config or {}
    policy = fields.get("kv_load_failure_policy")
    if policy is not None and policy not in _POLICIES and case.kv.word is not None:
        written = case.kv.written
        yield Hit(
            f"`{str(policy)[:40]}` is no policy: vLLM knows {' and '.join(_POLICIES)}, and does not start",
            written.key("kv_load_failure_policy") if written is not None else case.kv.word,
            "error",
            '"kv_load_failure_policy": "recompute"',
        )
        return
    if default != "fail":
        return
    connector = next(case.kv.offloading(), None)
    if connector is None:
        return
    if policy == "recompute":
        return
    lower = bool(connector.tiers) or connector.name not in (
        "OffloadingConnector",
        "SimpleCPUOffloadConnector",
    )
    severity: Severity = "warning" if lower and not case.assumed else "note"
    at = connector.word if case.kv.by_flag else connector.key("kv_connector")
    yield Hit(
        "a block that cannot be loaded fails its request: the default policy is `fail` since vLLM 0.17",
        at,
        severity,
        '"kv_load_failure_policy": "recompute" in --kv-transfer-config'
        if case.kv.word is not None
        else """--kv-transfer-config '{"kv_load_failure_policy":"recompute"}'""",
    )


RULE = Rule(
    "load-failure-policy",
    "warning",
    "A lost block fails the request.",
    "`kv_load_failure_policy` was recompute up to vLLM 0.16 and is fail since 0.17: when a file is gone or a "
    "remote store "
    "does not answer, the request fails with an error instead of being computed again. It is a top-level key of "
    "--kv-transfer-config, and `--kv-offloading-size` keeps it.",
    '{"kv_connector":"OffloadingConnector","kv_role":"kv_both", …}',
    '{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_load_failure_policy":"recompute", …}',
    "vLLM 0.17 and newer",
    "vLLM config/kv_transfer.py",
    check,
)
