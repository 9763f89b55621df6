"""Runs the rules over the inputs and sorts what they say."""

import re
from collections.abc import Iterable, Iterator

from warmset.checks.case import Case, Facts, make_case
from warmset.checks.collect import Inputs, link
from warmset.checks.findings import (
    SEVERITIES,
    Assumed,
    CheckResult,
    Finding,
    Hit,
    NotChecked,
    Rule,
    Suppressed,
)
from warmset.checks.inputs.parsed import Parsed
from warmset.checks.record import ServerLaunch
from warmset.checks.rules import RULES
from warmset.checks.text import NothingToCheck, Place, Source, Word

_COMMENT = re.compile(
    r"#\s*warmset:\s*ignore(?P<file>-file)?\[(?P<rules>[a-z0-9\-,\s]*)\]\s*(?P<reason>.*?)\s*$"
)


def run(inputs: Inputs, facts: Facts | None = None, rules: Iterable[Rule] = RULES) -> CheckResult:
    """Check everything that was read. Raises NothingToCheck where nothing is, as in a named log of another program."""
    facts = facts or Facts()
    chosen = tuple(rules)
    launches = inputs.launches or _stand_in(inputs)
    if not launches:
        raise _nothing(inputs)
    findings: list[Finding] = []
    missing: dict[tuple[str, str, str], NotChecked] = {}
    assumed: list[Assumed] = []
    lmcache: str | None = None
    notes = list(inputs.notes)
    for launch in launches:
        case = make_case(launch, inputs, facts)
        place = launch.where.place
        notes += case.engine.notes
        assumed.append(Assumed(str(case.engine), case.engine_source, place))
        if case.in_process is not None or case.client is not None or launch.server.startswith("lmcache"):
            lmcache = str(case.lmcache_engine)
        for rule in chosen:
            for answer in rule.check(case):
                if isinstance(answer, Hit):
                    findings.append(_finding(rule, answer, case))
                else:
                    key = (rule.name, answer.fact, place.file)
                    missing.setdefault(key, NotChecked(rule.name, answer.fact, answer.message, place))
    findings += [finding for parsed in inputs.lone_logs for finding in _alone(parsed, facts, chosen)]
    notes += _other_logs(inputs, {finding.place.file for finding in findings})
    kept, suppressed = _suppress(_unique(findings), inputs, launches)
    return CheckResult(
        tuple(sorted(kept, key=_order)),
        tuple(missing.values()),
        tuple(suppressed),
        tuple(dict.fromkeys(assumed)),
        lmcache,
        len(chosen),
        len(inputs.parsed),
        tuple(dict.fromkeys(notes)),
        tuple((p.source.name, p.kind) for p in inputs.parsed),
    )


def _nothing(inputs: Inputs) -> NothingToCheck:
    names = [f"`{p.source.name}`" for p in inputs.parsed]
    more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    where = f" in {', '.join(names[:3])}{more}" if names else ""
    return NothingToCheck(
        f"nothing to check{where}: no server is started, configured or logged there",
        hint="give a command behind `--`, or a script, manifest, values file, env file or log",
    )


def _other_logs(inputs: Inputs, found_in: set[str]) -> list[str]:
    """Notes about logs of other programs. Raises NothingToCheck where there is nothing else, or one was meant."""
    logs = [(p, p.log) for p in inputs.parsed if p.log is not None]
    others = [p for p, log in logs if not log.of_server and p.source.name not in found_in]
    judged = inputs.launches or inputs.lmcache or inputs.mooncake or inputs.queries or len(others) < len(logs)
    named = next((p for p in others if p.is_the_log or not (p.optional or judged)), None)
    if named is not None:
        raise NothingToCheck(
            f"nothing to check in `{named.source.name}`: no line is one of vLLM, SGLang, LMCache or Mooncake",
            hint="give the server's own log, from its start: `kubectl logs POD > server.log`",
        )
    if not judged:
        raise _nothing(inputs)
    return [f"passed over: no line of `{p.source.name}` is one of a known server" for p in others]


def _alone(parsed: Parsed, facts: Facts, rules: tuple[Rule, ...]) -> list[Finding]:
    """What one log of several says by itself: nobody knows which launch it belongs to."""
    inputs = link([parsed], [])
    return [
        _finding(rule, answer, case)
        for launch in inputs.launches or _stand_in(inputs)
        for case in [make_case(launch, inputs, facts)]
        for rule in rules
        for answer in rule.check(case)
        if isinstance(answer, Hit)
    ]


def _stand_in(inputs: Inputs) -> tuple[ServerLaunch, ...]:
    """A log, a rule file or a server's own settings alone: there is no launch, but there is something to check."""
    server = "vllm"
    if inputs.logs:
        source = inputs.logs[0].source
        server = "sglang" if re.search(r"sglang|hicache|HiCache", source.text) else "vllm"
    elif inputs.lmcache or inputs.mooncake:
        source = (inputs.lmcache or inputs.mooncake)[0].source
    elif inputs.queries:
        source = inputs.queries[0].text.source
    else:
        return ()
    version = inputs.logs[0].version if inputs.logs else None
    return (
        ServerLaunch(
            server,  # type: ignore[arg-type]  # one of the two literals above
            Word("", source.whole(), 0, 1),
            version=version,
            version_source="the log" if version else "",
            origin="settings",
            complete=False,
        ),
    )


def _finding(rule: Rule, hit: Hit, case: Case) -> Finding:
    place = hit.at.place if isinstance(hit.at, Word) else hit.at
    return Finding(
        rule.name,
        hit.severity or rule.severity,
        hit.confidence,
        hit.message,
        place,
        hit.fix,
        hit.since or rule.since,
        str(case.engine),
        hit.edit,
    )


def _order(finding: Finding) -> tuple[str, int, int, int, str]:
    place = finding.place
    return place.file, place.line, place.column, SEVERITIES.index(finding.severity), finding.rule


def _unique(findings: list[Finding]) -> list[Finding]:
    seen: set[tuple[str, str, str, int, int]] = set()
    out: list[Finding] = []
    for finding in findings:
        place = finding.place
        key = (finding.rule, finding.message, place.file, place.line, place.column)
        if key not in seen:
            seen.add(key)
            out.append(finding)
    return out


def _suppress(
    findings: list[Finding], inputs: Inputs, launches: Iterable[ServerLaunch]
) -> tuple[list[Finding], list[Suppressed]]:
    """Findings that a comment marks as meant: on the line, above it, above the launch, or for the file."""
    sources = {p.source.name: p.source for p in inputs.parsed}
    marked = {name for name, source in sources.items() if "warmset:" in source.text}
    if not marked:
        return findings, []
    heads: dict[str, list[tuple[int, int]]] = {}
    for launch in launches:
        places = list(launch.extent())
        heads.setdefault(places[0].file, []).append((places[0].line, max(p.line for p in places)))
    kept: list[Finding] = []
    suppressed: list[Suppressed] = []
    for finding in findings:
        reason = None
        if finding.place.file in marked:
            reason = _reason(finding, sources[finding.place.file], heads.get(finding.place.file, []))
        if reason:
            suppressed.append(Suppressed(finding, reason))
        else:
            kept.append(finding)
    for name in sorted(marked):
        kept.extend(_without_reason(sources[name]))
    return kept, suppressed


def _reason(finding: Finding, source: Source, spans: list[tuple[int, int]]) -> str | None:
    lines = [finding.place.line, *_comments_above(source, finding.place.line)]
    for first, last in spans:
        if first <= finding.place.line <= last:
            lines += [first, *_comments_above(source, first)]
    for line in lines:
        match = _COMMENT.search(source.line_text(line))
        if match is not None and _names(match, finding.rule):
            return match["reason"] or None
    for match in re.finditer(_COMMENT.pattern, source.text, re.MULTILINE):
        if match["file"] and _names(match, finding.rule):
            return match["reason"] or None
    return None


def _names(match: re.Match[str], rule: str) -> bool:
    return rule in {name.strip() for name in match["rules"].split(",")}


def _comments_above(source: Source, line: int) -> Iterator[int]:
    for above in range(line - 1, max(0, line - 50), -1):
        if not source.line_text(above).lstrip().startswith("#"):
            return
        yield above


def _without_reason(source: Source) -> Iterator[Finding]:
    """A suppression without a reason does nothing but say so."""
    for match in re.finditer(_COMMENT.pattern, source.text, re.MULTILINE):
        if not match["reason"]:
            place: Place = source.place(match.start(), match.end())
            yield Finding(
                "suppression-reason",
                "warning",
                "high",
                f"the comment suppresses nothing: it gives no reason for `{match['rules'].strip()[:80]}`",
                place,
                f"# warmset: ignore{match['file'] or ''}[{match['rules'].strip()[:80]}] why this is meant",
                "",
                "",
            )
