"""Weight offload where KV offload is wanted: `--cpu-offload-gb` and its relatives."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule, Severity
from warmset.checks.record import Flag

_EXACT = ("--cpu-offload-gb", "--cpu-offload-params")
_PREFIX = "--offload-"
_FIELDS = ("operator", "helm")


def check(case: Case) -> Iterator[Answer]:
    """The flags that move weights and are not switched off, as one finding at the first of them."""
    if case.launch.server not in ("vllm", "sglang", "bench"):
        return
    found = [flags[-1] for name, flags in case.launch.flags.items() if _moves_weights(case, name, flags[-1])]
    if not found:
        return
    attached = case.kv.attached or case.offloads
    names = ", ".join(f"`{flag.name}`" for flag in found)
    one = len(found) == 1
    message = (
        f"{names} {'moves' if one else 'move'} model *weights* to host memory, to stream them back on every forward "
        f"pass; {'it does' if one else 'they do'} nothing for the KV cache"
    )
    if attached:
        message += ", which the KV connector beside it offloads: one of the two is probably not meant"
    severity: Severity = "warning" if attached else "error"
    if case.launch.origin in _FIELDS and not attached and not found[0].spelling.startswith("-"):
        # A field of an operator or chart, not the flag: nobody chose it over the one for the KV cache.
        severity = "note"
    size = next((f"{f.number:g}" for f in found if f.name == "--cpu-offload-gb" and f.number), "GIB")
    yield Hit(message, found[0].word, severity, _fix(case, size, attached), since="all versions")


def _moves_weights(case: Case, name: str, flag: Flag) -> bool:
    if name not in _EXACT and (case.sglang or not name.startswith(_PREFIX)):
        return False
    return flag.number != 0 and (flag.value is None or flag.value.value not in ("auto", "none", ""))


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
