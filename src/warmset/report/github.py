"""Findings as annotations that GitHub shows beside the line."""

from warmset.checks.findings import CheckResult

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def github(result: CheckResult) -> str:
    """One workflow command for each finding."""
    lines = []
    for finding in result.findings:
        place = finding.place
        settings = {
            "file": place.file,
            "line": str(place.line),
            "col": str(place.column),
            "endColumn": str(place.end_column),
            "title": f"warmset: {finding.rule}",
        }
        text = finding.message + (f"\nfix: {finding.fix}" if finding.fix else "")
        said = ",".join(f"{key}={_property(value)}" for key, value in settings.items())
        lines.append(f"::{_COMMANDS[finding.severity]} {said}::{_data(text)}")
    return "".join(line + "\n" for line in lines)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
