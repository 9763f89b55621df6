"""Findings as SARIF 2.1.0, for code-scanning services."""

from warmset import __version__
from warmset.checks.findings import CheckResult, Finding, Rule

_LEVELS = {"error": "error", "warning": "warning", "note": "note"}
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(result: CheckResult, rules: tuple[Rule, ...]) -> dict[str, object]:
    """One run with all rules, and a result for each finding (suppressed ones marked as such)."""
    order = {rule.name: index for index, rule in enumerate(rules)}
    suppressed = [
        {**_result(s.finding, order), "suppressions": [{"kind": "inSource", "justification": s.reason}]}
        for s in result.suppressed
    ]
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "warmset",
                        "version": __version__,
                        "semanticVersion": __version__,
                        "rules": [_rule(rule) for rule in rules],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(f, order) for f in result.findings] + suppressed,
            }
        ],
    }


def _rule(rule: Rule) -> dict[str, object]:
    return {
        "id": rule.name,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.why},
        "help": {"text": f"{rule.why}\n\nWrong:\n{rule.wrong}\n\nRight:\n{rule.right}"},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _result(finding: Finding, order: dict[str, int]) -> dict[str, object]:
    place = finding.place
    text = finding.message + (f" Fix: {finding.fix}" if finding.fix else "")
    found: dict[str, object] = {
        "ruleId": finding.rule,
        "level": _LEVELS[finding.severity],
        "message": {"text": text},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(place.file)},
                    "region": {
                        "startLine": place.line,
                        "startColumn": place.column,
                        "endColumn": place.end_column,
                        "snippet": {"text": place.text},
                    },
                }
            }
        ],
        "properties": {"confidence": finding.confidence, "server": finding.server},
    }
    if finding.rule in order:
        found["ruleIndex"] = order[finding.rule]
    return found


def _uri(file: str) -> str:
    from urllib.parse import quote

    return quote(file.removeprefix("./"), safe="/:")
