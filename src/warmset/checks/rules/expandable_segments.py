"""The allocator setting that vLLM refuses beside a connector."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule, Severity

_SINCE = "0.21.0"


def check(case: Case) -> Iterator[Answer]:
    """Both spellings of the variable; the cumem allocator (also through sleep mode) is exempt."""
    if not case.vllm or not case.kv.connectors or not case.since(_SINCE):
        return
    if case.launch.has("--enable-cumem-allocator", "--enable-sleep-mode"):
        return
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        word = case.launch.env.get(name)
        if word is None or "expandable_segments:True" not in word.value.replace(" ", ""):
            continue
        refused = name == "PYTORCH_CUDA_ALLOC_CONF"
        severity: Severity = "error" if refused else "warning"
        effect = (
            "vLLM refuses it beside any KV connector and does not start"
            if refused
            else (
                "newer torch reads this spelling too: pinned KV memory may be remapped under the connector, and "
                "vLLM does not notice"
            )
        )
        yield Hit(
            f"expandable_segments: {effect}",
            word,
            severity,
            f"remove expandable_segments from {name}, or add --enable-cumem-allocator",
        )


RULE = Rule(
    "expandable-segments",
    "error",
    "expandable_segments beside a KV connector.",
    "The allocator may move KV memory to other pages while a connector has the old ones registered. vLLM checks "
    "PYTORCH_CUDA_ALLOC_CONF and refuses to start, unless the cumem allocator (which sleep mode brings) keeps "
    "the KV cache "
    "out of it. The newer spelling PYTORCH_ALLOC_CONF has the same effect in torch and is not checked.",
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True vllm serve M --kv-offloading-size 12",
    "vllm serve M --kv-offloading-size 12",
    "vLLM 0.21 and newer",
    "vLLM config/vllm.py, issue 42404",
    check,
)
