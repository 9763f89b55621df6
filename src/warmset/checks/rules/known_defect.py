"""Combinations that are known to be broken in some versions."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Confidence, Hit, Rule, Severity
from warmset.checks.text import Place, Word

At = Word | Place | None


@dataclass(frozen=True, slots=True)
class Defect:
    """One known defect: versions (inclusive, empty for open ends), where it shows, what happens."""

    first: str
    last: str
    where: Callable[[Case], At]
    message: str
    fix: str
    source: str
    severity: Severity = "warning"
    confidence: Confidence = "high"


def check(case: Case) -> Iterator[Answer]:
    """Every defect of the table whose versions and combination match."""
    if not case.vllm:
        return
    for defect in DEFECTS:
        if defect.last and (case.assumed or not case.between(defect.first, defect.last)):
            continue
        if not defect.last and not case.since(defect.first):
            continue
        at = defect.where(case)
        if at is not None:
            yield Hit(
                defect.message,
                at,
                defect.severity,
                defect.fix,
                defect.confidence,
                f"vLLM {defect.first} to {defect.last or 'today'}",
            )
    yield from _lmcache_disk(case)


def _lmcache_disk(case: Case) -> Iterator[Answer]:
    from warmset.servers import Version

    version = case.lmcache_engine.version
    disk = case.lmcache.disk
    if case.lmcache_known and disk is not None and Version(0, 3, 11) <= version <= Version(0, 3, 13):
        yield Hit(
            f"LMCache {version} may write nothing to its disk tier: check that files appear",
            disk.at,
            "warning",
            "LMCache 0.3.10, or the LMCache server",
            "medium",
        )


def _connector(case: Case, *names: str) -> At:
    found = case.kv.named(*names)
    if found is None:
        return None
    return found.word if case.kv.by_flag else found.key(found.name)


def _flag(case: Case, name: str) -> At:
    found = case.launch.flag(name)
    return found.word if found is not None else None


def _sleep(case: Case) -> At:
    return _flag(case, "--enable-sleep-mode") if case.native is not None else None


def _uneven(case: Case) -> At:
    uneven = case.launch.pipeline_parallel > 1 or case.launch.has("--speculative-config")
    return _connector(case, "SimpleCPUOffloadConnector") if uneven else None


def _speculative(case: Case) -> At:
    found = case.launch.flag("--speculative-config")
    if found is None or case.native is None or not case.model.hybrid:
        return None
    method = found.value.value if found.value is not None else ""
    return found.word if re.search(r"mtp|eagle|dspark|draft", method, re.IGNORECASE) or not method else None


def _lora(case: Case) -> At:
    return _flag(case, "--enable-lora") if case.client is not None else None


def _embeds(case: Case) -> At:
    return (
        _flag(case, "--enable-prompt-embeds")
        if case.client is not None or case.in_process is not None
        else None
    )


def _disaggregated(case: Case) -> At:
    native, nixl = case.native, case.kv.named("NixlConnector")
    return native.key(native.name) if native is not None and nixl is not None and native.nested else None


def _growing(case: Case) -> At:
    return _connector(case, "OffloadingConnector")


def _fp8(case: Case) -> At:
    dtype = case.launch.flag("--kv-cache-dtype")
    quantised = dtype is not None and dtype.value is not None and dtype.value.value.startswith("fp8")
    return dtype.word if quantised and dtype is not None and case.in_process is not None else None


def _custom_dtype(case: Case) -> At:
    dtype = case.launch.flag("--kv-cache-dtype")
    if dtype is None or dtype.value is None or case.native is None:
        return None
    plain = re.fullmatch(r"auto|bfloat16|float16|half|fp8.*|nvfp4|int8.*", dtype.value.value)
    return None if plain else dtype.word


DEFECTS = (
    Defect(
        "0.22.0",
        "0.22.1",
        _sleep,
        "native KV offload with sleep mode kills the engine after the first wake-up",
        "one of the two, or vLLM 0.23",
        "vLLM issue 45268",
    ),
    Defect(
        "0.19.0",
        "0.24.0",
        lambda c: _connector(c, "SimpleCPUOffloadConnector"),
        "SimpleCPUOffloadConnector stores blocks before they are computed under load: the output is garbled",
        "OffloadingConnector, or vLLM 0.25",
        "vLLM issue 45704, PR 46278",
    ),
    Defect(
        "0.19.0",
        "0.27.1",
        _uneven,
        (
            "SimpleCPUOffloadConnector with pipeline stages or a draft model: stages hold unequal layers, ranks "
            "disagree about the number of blocks, and copies run out of bounds (count the capacity by the "
            "heaviest stage)"
        ),
        "OffloadingConnector",
        "vLLM PR 52921",
    ),
    Defect(
        "0.22.0",
        "0.27.1",
        _speculative,
        "on hybrid models the tier stores and never serves while speculative decoding (MTP, EAGLE) is on",
        "vLLM 0.28, or no --speculative-config",
        "vLLM issues 52735, PR 52771, PR 52674",
    ),
    Defect(
        "0.11.1",
        "",
        _lora,
        "LMCacheMPConnector's keys lack the LoRA adapter: a request of one adapter may get KV computed under another",
        "no --enable-lora, or a cache_salt for each adapter",
        "vLLM issue 44250",
        confidence="medium",
    ),
    Defect(
        "0.11.1",
        "",
        _embeds,
        "LMCache's keys do not cover prompt embeddings: requests of equal length share KV",
        "no --enable-prompt-embeds",
        "vLLM issue 42119",
        confidence="medium",
    ),
    Defect(
        "0.19.0",
        "0.19.1",
        _disaggregated,
        "OffloadingConnector beside NIXL in a MultiConnector crashes on the decoding side",
        "vLLM 0.20",
        "vLLM issue 39500, PR 39617",
    ),
    Defect(
        "0.11.0",
        "0.11.0",
        _growing,
        "OffloadingConnector of 0.11.0 is unstable with many requests",
        "vLLM 0.12 or newer",
        "vLLM issue 26329",
    ),
    Defect(
        "0.8.5",
        "0.9.1",
        _fp8,
        "LMCache of that time crashes under load with an fp8 KV cache",
        "a newer LMCache and vLLM",
        "LMCache issue 796",
        confidence="medium",
    ),
    Defect(
        "0.24.0",
        "",
        _custom_dtype,
        "blocks of this KV type were seen to be stored and never loaded: look for loads before relying on the tier",
        "--kv-cache-dtype auto or fp8",
        "public report of August 2026 (vLLM 0.27.1)",
        confidence="low",
    ),
)

RULE = Rule(
    "known-defect",
    "warning",
    "A combination that is known to be broken in this version.",
    "Each row names the versions, the combination and what happens: a crash, garbled output, a tier that never "
    "serves. "
    "The table is in warmset/checks/rules/known_defect.py, each row with the report that it comes from.",
    "vllm serve M --kv-offloading-size 32 --enable-sleep-mode   # vLLM 0.22.1",
    "vllm serve M --kv-offloading-size 32   # vLLM 0.23",
    "by row",
    "vLLM issues 45268, 45704, 52735, 44250 and others",
    check,
)
