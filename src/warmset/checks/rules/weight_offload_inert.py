"""Weight offload that the V2 model runner silently leaves off."""

import re
from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule

_DONE = re.compile(r"Offloader set to")


def check(case: Case) -> Iterator[Answer]:
    """The flag in a version whose default runner never sets the offloader, or a log that lacks its line."""
    flag = case.launch.flag("--cpu-offload-gb", "--offload-group-size")
    if not case.vllm or flag is None or flag.number == 0:
        return
    log = case.log
    if log is not None and log.search(_DONE) is not None:
        return
    started = log is not None and log.pool_tokens is not None
    if case.between("0.20.0", "0.25.1") or (started and case.since("0.20.0")):
        proof = (
            "the log has no `Offloader set to` line"
            if log is not None
            else "look for `Offloader set to` in the log"
        )
        yield Hit(
            (
                f"weight offload may be silently off: the V2 model runner of this version does not set the "
                f"offloader; {proof}"
            ),
            flag.word,
            confidence="high" if log is not None else "medium",
            fix="VLLM_USE_V2_MODEL_RUNNER=0, or a newer version",
        )


RULE = Rule(
    "weight-offload-inert",
    "warning",
    "Weight offload that does nothing on this version.",
    "With the V2 model runner, the default for most models in vLLM 0.20 to 0.25, `--cpu-offload-gb` and "
    "`--offload-group-size` have no effect and nothing says so: the model loads fully on the device. The log line "
    "`Offloader set to …` is the proof that weights are offloaded.",
    "vllm serve M --cpu-offload-gb 4   # vLLM 0.25.1",
    "VLLM_USE_V2_MODEL_RUNNER=0 vllm serve M --cpu-offload-gb 4",
    "vLLM 0.20 to 0.25",
    "vLLM PR 48468",
    check,
)
