"""Weight offload where KV offload is wanted: `--cpu-offload-gb` and its relatives."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule, Severity

_EXACT = ("--cpu-offload-gb", "--cpu-offload-params")
_PREFIX = "--offload-"
_FIELDS = ("operator", "helm")


def check(case: Case) -> Iterator[Answer]:
    """Every flag that moves weights and is not switched off."""
    if case.launch.server not in ("vllm", "sglang", "bench"):
        return
    for name, found in case.launch.flags.items():
        flag = found[-1]
        if name not in _EXACT and not name.startswith(_PREFIX):
            continue
        if case.sglang and name != "--cpu-offload-gb":
            continue
        if flag.number == 0 or (flag.value is not None and flag.value.value in ("auto", "none", "")):
            continue
        attached = case.kv.attached or case.offloads
        size = f"{flag.number:g}" if flag.number else "GIB"
        severity: Severity = "warning" if attached else "error"
        message = (
            f"`{name}` moves model *weights* to host memory and streams them back on every forward pass; "
            "it does nothing for the KV cache"
        )
        if attached:
            message += ", which the KV connector beside it offloads: one of the two is probably not meant"
        if case.launch.origin in _FIELDS and not attached:
            # A field of an operator: nobody chose this flag over the one for the KV cache.
            severity = "note"
        yield Hit(message, flag.word, severity, _fix(case, size, attached), since="all versions")


def _fix(case: Case, size: str, attached: bool) -> str:
    if attached:
        return (
            "remove the flag, or mark it as meant: `# warmset: ignore[weights-not-kv] the model does not fit`"
        )
    if case.sglang:
        return f"--enable-hierarchical-cache --hicache-size {size}"
    if case.engine.has_flag("--kv-offloading-size"):
        return f"--kv-offloading-size {size}" + (
            " --kv-offloading-backend native"
            if case.engine.default("kv_offloading_size.needs_backend")
            else ""
        )
    return (
        '--kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\' with '
        "LMCACHE_MAX_LOCAL_CPU_SIZE"
    )


RULE = Rule(
    "weights-not-kv",
    "error",
    "A weight-offload flag where KV offload is meant.",
    "Two mechanisms share one name. `--cpu-offload-gb` and `--offload-*` keep part of the model's weights in host "
    "memory: a card looks larger and every forward pass gets slower. Evicted KV cache is still thrown away. With no "
    "KV connector beside it this is an error, because nothing of the KV cache is offloaded; with one it is a "
    "warning, because "
    "both are on. Where weights are meant, say so with a comment and a reason.",
    "vllm serve M --cpu-offload-gb 40",
    "vllm serve M --kv-offloading-size 40",
    "all versions of vLLM",
    "vLLM config/offload.py; LMCache issues 955 and 1372",
    check,
)
