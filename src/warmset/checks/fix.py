"""Certain corrections, applied to texts; files are never written."""

import difflib
from collections.abc import Iterable

from warmset.checks.collect import Inputs
from warmset.checks.findings import Edit, Finding


def diff(findings: Iterable[Finding], inputs: Inputs) -> str:
    """The corrections of all findings that have a certain one, as a unified diff."""
    by_file: dict[str, list[Edit]] = {}
    for finding in findings:
        if finding.edit is not None:
            by_file.setdefault(finding.edit.file, []).append(finding.edit)
    parts = []
    for file, edits in by_file.items():
        source = inputs.source(file)
        if source is None:
            continue
        before, after = source.text, apply(source.text, edits)
        lines = list(
            difflib.unified_diff(
                before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{file}", f"b/{file}"
            )
        )
        # A last line without a newline would swallow what follows it.
        parts += [
            line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines
        ]
    return "".join(parts)


def apply(text: str, edits: Iterable[Edit]) -> str:
    """The text with all edits that do not overlap; of two that do, the first in the text counts."""
    out: list[str] = []
    at = 0
    for edit in sorted(set(edits), key=lambda e: (e.start, e.end)):
        if edit.start < at:
            continue
        out += [text[at : edit.start], edit.replacement]
        at = edit.end
    return "".join([*out, text[at:]])
