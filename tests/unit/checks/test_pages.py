"""One file, one page and one file of cases for each rule, and none drifts from the others."""

from pathlib import Path

import pytest

from warmset.checks.findings import SEVERITIES, Rule
from warmset.checks.rules import BY_NAME, RULES
from warmset.report.check import explanation, index

# Regenerate a page with `warmset check --explain RULE > docs/reference/rules/RULE.md`.


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_page(rule: Rule, root: Path) -> None:
    assert (root / "docs/reference/rules" / f"{rule.name}.md").read_text() == explanation(rule)


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_files(rule: Rule, root: Path) -> None:
    file = rule.name.replace("-", "_") + ".py"
    assert (root / "src/warmset/checks/rules" / file).is_file()
    tests = root / "tests/unit/checks"
    assert (tests / "cases" / f"{rule.name}.yaml").is_file() or (tests / f"test_{file}").is_file()
    assert rule.severity in SEVERITIES
    assert rule.summary.endswith(".")
    assert all((rule.why, rule.wrong, rule.right, rule.since, rule.source))


def test_index(root: Path) -> None:
    assert (root / "docs/reference/rules/README.md").read_text() == index(RULES)


def test_every_file_is_a_rule(root: Path) -> None:
    files = {p.stem.replace("_", "-") for p in (root / "src/warmset/checks/rules").glob("*.py")} - {
        "--init--"
    }
    pages = {p.stem for p in (root / "docs/reference/rules").glob("*.md")} - {"README"}
    assert files == pages == set(BY_NAME)
