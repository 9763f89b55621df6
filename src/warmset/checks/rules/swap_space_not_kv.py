"""`--swap-space`, which never was KV offload in the V1 engine."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule, Severity, replacing


def check(case: Case) -> Iterator[Answer]:
    """The flag, graver where the version refuses it."""
    flag = case.launch.flag("--swap-space")
    if case.launch.server not in ("vllm", "bench") or flag is None:
        return
    gone = not case.engine.has_flag("--swap-space")
    severity: Severity = "note" if case.kv.attached or flag.number == 0 else "warning"
    message = (
        "`--swap-space` is not KV offload: the V1 engine keeps no swapped blocks, so the value has no effect"
    )
    if gone and not case.assumed:
        severity = "error"
        message = (
            f"`--swap-space` was removed in vLLM 0.18: {case.engine} stops with `unrecognized arguments`"
        )
    size = f"{flag.number:g}" if flag.number else ""
    wanted = size and not case.kv.attached and case.engine.has_flag("--kv-offloading-size")
    fix = f"--kv-offloading-size {size}" if wanted else "remove `--swap-space`"
    edit = None
    if gone and flag.value is not None and flag.number == 0:
        edit = replacing(flag.word, "--swap-space", "") if flag.value is flag.word else None
    yield Hit(message, flag.word, severity, fix, edit=edit)


RULE = Rule(
    "swap-space-not-kv",
    "warning",
    "`--swap-space` does not offload KV cache.",
    "The flag belongs to the V0 engine, which swapped the blocks of preempted requests. The V1 engine reads it "
    "and does "
    "nothing with it; vLLM 0.18 removed it, and a command that still has it does not start.",
    "vllm serve M --swap-space 64",
    "vllm serve M --kv-offloading-size 64",
    "no effect in the V1 engine; removed in vLLM 0.18",
    "vLLM issue 27984",
    check,
)
