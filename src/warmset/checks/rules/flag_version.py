"""KV flags that the version does not have, or that cannot work in it."""

from collections.abc import Iterator
from dataclasses import replace
from difflib import get_close_matches

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule, Severity
from warmset.checks.record import Flag
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
# The module whose parser is SGLang's own, and what every parser has.
_LAUNCHER = ("sglang.launch_server", "launch_server.py")
_OF_ARGPARSE = frozenset(("--help", "--h"))
# vLLM's flag → what does the same in SGLang.
_OF_VLLM = {
    "--max-model-len": "--context-length",
    "--gpu-memory-utilization": "--mem-fraction-static",
    "--max-num-seqs": "--max-running-requests",
    "--max-num-batched-tokens": "--chunked-prefill-size",
    "--block-size": "--page-size",
    "--no-enable-prefix-caching": "--disable-radix-cache",
    "--enforce-eager": "--disable-cuda-graph",
    "--kv-offloading-size": "--hicache-size",
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
        if "." in name or case.engine.has_flag(name):
            continue
        if _parsed_by_sglang(case):
            yield from _not_of_sglang(case, name, found[-1], names)
        elif name.startswith(_PREFIXES) and not (case.sglang and name.startswith("--kv-")):
            yield _unknown(case, name, found[-1].word, names)
    if _parsed_by_sglang(case):
        yield from _choices(case)
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


def _parsed_by_sglang(case: Case) -> bool:
    """Whether SGLang's own parser reads the flags, every one of which is in the tables of the versions looked into.

    `sglang serve` and what wraps the server have flags of their own.
    """
    return (
        case.sglang
        and case.launch.where.value.endswith(_LAUNCHER)
        and case.engine.version == case.engine.facts_version
    )


def _not_of_sglang(case: Case, name: str, flag: Flag, names: list[str]) -> Iterator[Hit]:
    """An unknown flag; argparse takes the beginning of a name for the name where only one begins so."""
    begun = [n for n in names if n.startswith(flag.spelling)]
    if name in _OF_ARGPARSE or len(begun) == 1:
        return
    own = _OF_VLLM.get(name)
    if len(begun) > 1:
        yield Hit(
            f"`{flag.spelling}` is ambiguous in {case.engine}: `{begun[0]}` or `{begun[1]}`",
            flag.word,
            fix=begun[0],
        )
    elif own is not None and own in names:
        yield Hit(
            f"{case.engine} has no `{name}`, which is vLLM's name: did you mean `{own}`?",
            flag.word,
            "error",
            own,
        )
    else:
        found = _unknown(case, name, flag.word, names)
        # Where the newest known version stands in, a newer one may have the flag.
        yield replace(
            found, severity="warning" if case.assumed and not name.startswith(_PREFIXES) else "error"
        )


def _choices(case: Case) -> Iterator[Hit]:
    """Values that SGLang's parser refuses."""
    for name, found in case.launch.flags.items():
        fact, value = case.engine.flag(name), found[-1].value
        if fact is None or not fact.values or value is None or not value.known:
            continue
        if value.value.lower() in {v.lower() for v in fact.values}:
            continue  # some flags are read in any case
        near = [v for v in fact.values if v.startswith(value.value)][:2]
        near = near or get_close_matches(value.value, fact.values, n=1, cutoff=0.6)
        yield Hit(
            f"{case.engine} takes no `{name} {value.value[:40]}`: it is one of {', '.join(fact.values)}",
            value,
            "warning" if case.assumed else "error",
            " or ".join(f"{name} {v}" for v in near) or None,
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
    "A KV flag (of SGLang: any flag) that this version does not have, or that cannot work in it.",
    "`--kv-offloading-size` came with vLLM 0.11.1. Until 0.13 it needed `--kv-offloading-backend` beside it, and its "
    "native backend could not start at all; since 0.14 the size alone is enough. The hybrid manager is forced on "
    "with "
    "`--no-disable-hybrid-kv-cache-manager`; the spelling in vLLM's own error message does not parse. Of "
    "`sglang.launch_server`, whose flags are all known, every flag is held against the version, and values against the "
    "choices of their flag.",
    "vllm serve M --kv-offloading-size 40   # vLLM 0.10",
    "vllm serve M --kv-offloading-size 40   # vLLM 0.14 or newer",
    "by version, see the tables of flags",
    "vLLM engine/arg_utils.py and config/vllm.py; SGLang srt/server_args.py",
    check,
)
