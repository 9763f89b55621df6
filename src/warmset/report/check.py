"""What a check says: findings with their line and a caret, what was not checked, and what was assumed."""

from warmset.checks.findings import SEVERITIES, CheckResult, Finding, Rule
from warmset.report.document import Block, Bullets, Code, Document, Facts, Line, Section, Tone

_TONES: dict[str, Tone] = {"error": "bad", "warning": "warn", "note": "dim"}
_MAX_LINE = 160


def payload(result: CheckResult) -> dict[str, object]:
    """The JSON form, `warmset.check/1`."""
    first = result.assumed[0] if result.assumed else None
    return {
        "schema": "warmset.check/1",
        "findings": [_finding(f) for f in result.findings],
        "not_checked": [
            {
                "rule": n.rule,
                "missing": n.missing,
                "message": n.message,
                "file": n.place.file,
                "line": n.place.line,
            }
            for n in result.not_checked
        ],
        "suppressed": [{**_finding(s.finding), "reason": s.reason} for s in result.suppressed],
        "rules_run": result.rules_run,
        "assumed": {
            "server": first.server if first else None,
            "source": first.source if first else None,
            "lmcache": result.lmcache,
            "servers": [
                {"server": a.server, "source": a.source, "file": a.place.file, "line": a.place.line}
                for a in result.assumed
            ],
        },
        "counts": {s: sum(f.severity == s for f in result.findings) for s in SEVERITIES},
        "files": [{"file": name, "kind": kind} for name, kind in result.sources],
        "notes": list(result.notes),
    }


def _finding(finding: Finding) -> dict[str, object]:
    place = finding.place
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "message": finding.message,
        "file": place.file,
        "line": place.line,
        "column": place.column,
        "end_column": place.end_column,
        "text": place.text,
        "fix": finding.fix,
        "fix_is_certain": finding.edit is not None,
        "since": finding.since or None,
        "server": finding.server or None,
    }


def document(result: CheckResult) -> Document:
    """The form for people."""
    return Document(_headline(result), tuple(_sections(result)))


def _headline(result: CheckResult) -> Line:
    counts = {s: sum(f.severity == s for f in result.findings) for s in SEVERITIES}
    if not result.findings:
        return Line("no findings", "good")
    said = ", ".join(f"{n} {s}{'s' if n > 1 else ''}" for s, n in counts.items() if n)
    return Line(said, _TONES[result.worst or "note"])


def _sections(result: CheckResult) -> list[Section]:
    # The gravest first: the first screen is all that some readers see.
    ordered = sorted(result.findings, key=lambda f: SEVERITIES.index(f.severity))
    sections = [_section(f) for f in ordered]
    if result.suppressed:
        items = tuple(
            f"{s.finding.rule} at {s.finding.place.file}:{s.finding.place.line}: {s.reason}"
            for s in result.suppressed
        )
        sections.append(Section("Meant (marked by a comment)", (Bullets(items),)))
    if result.not_checked:
        items = tuple(f"{n.rule}: {n.message} (lacks: {n.missing})" for n in result.not_checked)
        sections.append(Section("Not checked", (Bullets(items),)))
    servers = tuple(dict.fromkeys((a.server, a.source) for a in result.assumed))
    rows = [("server", server, _origin(source)) for server, source in servers[:8]]
    if result.lmcache is not None:
        rows.append(("lmcache", result.lmcache, ""))
    rows.append(("rules run", str(result.rules_run), ""))
    rows += [("note", note, "") for note in result.notes[:8]]
    sections.append(Section("Checked as", (Facts(tuple(rows)),)))
    return sections


def _origin(source: str) -> str:
    if source == "newest known":
        return "the newest known: `--engine SERVER@VERSION` names yours"
    return f"from {source}"


def _section(finding: Finding) -> Section:
    place = finding.place
    text, column, width = _window(place.text, place.column, place.end_column - place.column)
    caret = " " * (column - 1) + "^" + "~" * (width - 1)
    blocks: list[Block] = [
        Line(f"{finding.severity}[{finding.rule}]: {finding.message}", _TONES[finding.severity])
    ]
    if place.text.strip():
        blocks.append(Code(f"{text}\n{caret}", "text"))
    if finding.fix:
        blocks.append(Line(f"fix: {finding.fix}"))
    if finding.confidence != "high":
        blocks.append(Line(f"confidence: {finding.confidence}", "dim"))
    return Section(f"{place.file}:{place.line}:{place.column}", tuple(blocks))


def _window(text: str, column: int, width: int) -> tuple[str, int, int]:
    """A part of a long line around the spot; tabs become blanks so that the caret stands right."""
    text = text.replace("\t", " ")
    start = max(0, min(column - 1 - _MAX_LINE // 3, len(text) - _MAX_LINE)) if len(text) > _MAX_LINE else 0
    shown = text[start : start + _MAX_LINE]
    lead = "…" if start else ""
    at = column - start + len(lead)
    return lead + shown, at, max(1, min(width, len(lead + shown) - at + 1))


def explanation(rule: Rule) -> str:
    """A rule's page, as Markdown; docs/reference/rules holds the same text."""
    return (
        f"# {rule.name}\n\n{rule.summary}\n\n"
        f"| | |\n|---|---|\n| usual severity | {rule.severity} |\n| versions | {rule.since} |\n| known from | "
        f"{rule.source} |\n\n"
        f"## Why\n\n{rule.why}\n\n"
        f"## Wrong\n\n```\n{rule.wrong}\n```\n\n"
        f"## Right\n\n```\n{rule.right}\n```\n\n"
        f"Where it is meant, say so with a reason on the line or above it:\n\n"
        f"```\n# warmset: ignore[{rule.name}] the reason\n```\n"
    )


def index(rules: tuple[Rule, ...]) -> str:
    """The list of all rules, as Markdown."""
    rows = "\n".join(f"| [{r.name}]({r.name}.md) | {r.severity} | {r.summary} |" for r in rules)
    return (
        "# Rules of `warmset check`\n\n"
        "`warmset check --explain RULE` prints the same pages.\n\n"
        f"| rule | usual severity | what it says |\n|---|---|---|\n{rows}\n"
    )
