"""A linter for how servers are really started: inputs → launches → rules → findings.

>>> from warmset.checks import Facts, check_text
>>> [f.rule for f in check_text("vllm serve M --cpu-offload-gb 40").findings]
['weights-not-kv']
"""

from warmset.checks.case import Facts
from warmset.checks.collect import collect, read
from warmset.checks.findings import CheckResult, Finding, NotChecked, Rule
from warmset.checks.run import run
from warmset.checks.text import read_source

__all__ = [
    "CheckResult",
    "Facts",
    "Finding",
    "NotChecked",
    "Rule",
    "check_paths",
    "check_text",
    "collect",
    "run",
]


def check_paths(*paths: str, facts: Facts | None = None) -> CheckResult:
    """Check files and directories. Raises InputError for input that cannot be read."""
    return run(collect(paths), facts)


def check_text(text: str, *, name: str = "<text>", facts: Facts | None = None) -> CheckResult:
    """Check one text; its name decides what it is read as, as a file's would."""
    return run(collect((), commands=[read(read_source(name, text.encode()))]), facts)
