"""`--disable-hybrid-kv-cache-manager`, copied from old guides."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule, Severity, replacing


def check(case: Case) -> Iterator[Answer]:
    """The flag with offload: fatal with recurrent layers, costly with windows, needless otherwise."""
    flag = case.launch.flag("--disable-hybrid-kv-cache-manager")
    if (
        not case.vllm
        or flag is None
        or not case.offloads
        or case.launch.enabled("disable-hybrid-kv-cache-manager") is False
    ):
        return
    severity: Severity = "note"
    effect = "the server decides by itself, so it is not needed"
    if case.model.kind == "state" or case.model.kind == "compressed":
        severity, effect = "error", "a model with recurrent layers does not start with it"
    elif case.model.kind == "window":
        severity, effect = "warning", "windows are kept as full attention and take several times the memory"
    yield Hit(
        f"`--disable-hybrid-kv-cache-manager`: {effect}",
        flag.word,
        severity,
        "remove `--disable-hybrid-kv-cache-manager`",
        edit=replacing(flag.word, flag.word.value, "")
        if severity == "error" and flag.value is None
        else None,
    )


RULE = Rule(
    "hybrid-manager",
    "error",
    "The hybrid KV-cache manager is switched off by hand.",
    "Old guides for KV connectors ask for `--disable-hybrid-kv-cache-manager`. With recurrent layers the server "
    "then stops "
    "with `failed to convert the KV cache specs to one unified type`; with sliding windows it keeps full "
    "attention for "
    "every layer. vLLM switches the manager off itself where a connector needs that.",
    "vllm serve Qwen3.5-122B-A10B --kv-offloading-size 80 --disable-hybrid-kv-cache-manager",
    "vllm serve Qwen3.5-122B-A10B --kv-offloading-size 80",
    "vLLM 0.11 and newer",
    "public report of April 2026; vLLM PR 36636",
    check,
)
