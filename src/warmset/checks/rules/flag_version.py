"""KV flags that the version does not have, or that cannot work in it."""

from collections.abc import Iterator
from difflib import get_close_matches

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule, Severity
from warmset.checks.text import Spot

# Flags about KV and offload; other unknown flags are no business of this tool.
_PREFIXES = (
    "--kv-",
    "--hicache",
    "--enable-hi",
    "--prefix-ca",
    "--enable-prefix",
    "--enable-hybrid",
    "--cpu-kv",
    "--offload-kv",
    "--disable-hybrid",
)
_KNOWN_SLIPS = {
    "--enable-hybrid-kv-cache-manager": "--no-disable-hybrid-kv-cache-manager",
    "--kv-offload-size": "--kv-offloading-size",
    "--kv-offloading-gb": "--kv-offloading-size",
    "--cpu-kv-offload-gb": "--kv-offloading-size",
    "--kv-offload-backend": "--kv-offloading-backend",
    "--kv-cache-offload-size": "--kv-offloading-size",
    "--kv-cache-offloading-size": "--kv-offloading-size",
}


def check(case: Case) -> Iterator[Answer]:
    """Unknown flags by prefix, then the size flag of 0.11.1 to 0.13."""
    if not (case.vllm or case.sglang) or case.launch.origin in ("helm", "operator"):
        return
    names = [f.name for f in case.engine.flags()]
    for name, found in case.launch.flags.items():
        written = found[-1].spelling
        if case.sglang and written != name and case.engine.versions_with("flag", written):
            name = written  # a newer short name of a flag that is known longer
        if "." in name or not name.startswith(_PREFIXES) or case.engine.has_flag(name):
            continue
        if case.sglang and name.startswith("--kv-"):
            continue
        yield _unknown(case, name, found[-1].word, names)
    size, backend = case.launch.flag("--kv-offloading-size"), case.kv.backend
    if not case.vllm or case.launch.server != "vllm" or not case.kv.by_flag or size is None:
        return
    if case.engine.default("kv_offloading_size.needs_backend") and backend is None:
        yield Hit(
            (
                f"{case.engine} does nothing with `--kv-offloading-size` alone: `--kv-offloading-backend` is needed "
                f"until 0.13"
            ),
            size.word,
            fix="vLLM 0.14 or newer, or the JSON form with `num_cpu_blocks`",
        )
        return
    rule = case.engine.default("kv_offloading_size.native")
    if (backend or "native") == "native" and isinstance(rule, dict) and not rule.get("starts", True):
        yield Hit(
            (
                f"`--kv-offloading-size` with the native backend cannot start in {case.engine}: `num_cpu_blocks must "
                f"be specified`"
            ),
            size.word,
            fix=(
                "--kv-transfer-config "
                '\'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"num_cpu_blocks":BLOCKS}}\''
            ),
        )
    if backend not in (None, "native", "lmcache") and size is not None:
        flag = case.launch.flag("--kv-offloading-backend")
        assert flag is not None
        yield Hit(
            f"`{str(backend)[:40]}` is no backend",
            flag.value or flag.word,
            fix="--kv-offloading-backend native",
        )


def _unknown(case: Case, name: str, word: Spot, names: list[str]) -> Hit:
    kind = "flag"
    known = case.engine.versions_with("flag", name)
    slip = _KNOWN_SLIPS.get(name)
    severity: Severity = "error"
    if slip is not None and not known:
        return Hit(f"`{name}` does not parse: the {kind} is `{slip}`", word, severity, slip)
    if known and known[0] > case.version:
        return Hit(
            f"{case.engine} has no `{name}`: it came with {known[0]}",
            word,
            severity,
            f"vLLM {known[0]} or newer" if case.vllm else f"SGLang {known[0]} or newer",
        )
    if known:
        severity = "warning" if case.assumed else "error"
        new = case.engine.replaced_by(name)
        return Hit(
            f"{case.engine} has no `{name}`: {known[-1]} was the last version with it", word, severity, new
        )
    near = get_close_matches(name, names, n=1, cutoff=0.75)
    offer = f": did you mean `{near[0]}`?" if near else ""
    return Hit(
        f"{case.engine} has no `{name}`{offer}",
        word,
        "error" if near else "warning",
        near[0] if near else None,
    )


RULE = Rule(
    "flag-version",
    "error",
    "A KV flag that this version does not have, or that cannot work in it.",
    "`--kv-offloading-size` came with vLLM 0.11.1. Until 0.13 it needed `--kv-offloading-backend` beside it, and its "
    "native backend could not start at all; since 0.14 the size alone is enough. The hybrid manager is forced on "
    "with "
    "`--no-disable-hybrid-kv-cache-manager`; the spelling in vLLM's own error message does not parse.",
    "vllm serve M --kv-offloading-size 40   # vLLM 0.10",
    "vllm serve M --kv-offloading-size 40   # vLLM 0.14 or newer",
    "by version, see the tables of flags",
    "vLLM engine/arg_utils.py and config/vllm.py",
    check,
)
