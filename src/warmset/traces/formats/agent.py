"""Agent sessions: JSON `{id, block_size, hash_id_scope: local | global, requests: [{t, type, in, out, hash_ids}]}`.

With scope `local`, ids mean something within their session only, sub-agents included. A request of type
`subagent` holds a list of requests whose times count from its own start. Ids list full blocks.
A file holds one session, a list of sessions, or one session per line; a directory holds such files.
Source: callanjfox/kv-cache-tester.
"""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from warmset.errors import InputError
from warmset.traces import fields
from warmset.traces.chaining import ROOT, chain
from warmset.traces.options import ReadOptions
from warmset.traces.rows import BadRow, Problems, Rows, RowsBuilder
from warmset.traces.source import Source

TIME_UNIT = "s"
BLOCK_TOKENS = 64
_MAX_NESTING = 16
_FOLDER = "a folder is read as agent sessions: name one file in it, or `FORMAT:FOLDER` with `curve --sample`"


def read(source: Source, options: ReadOptions, problems: Problems) -> Iterator[Rows]:
    """All requests of all sessions by time; record numbers count sessions."""
    rows = RowsBuilder(options.block_tokens)
    number = 0
    for number, (name, session) in enumerate(_sessions(source, problems), 1):
        try:
            _add_session(rows, number, session, options)
        except BadRow as reason:
            problems.bad(number, f"{reason}{name}", hint=_FOLDER if name else None)
    if number > 1:
        problems.note(f"{number} sessions, each placed at its own recorded times")
    whole = rows.build()
    yield whole.take(np.argsort(whole.times, kind="stable")) if len(whole) else whole


def _sessions(source: Source, problems: Problems) -> Iterator[tuple[str, object]]:
    """Sessions, each with the words for where it stands: nothing, or the file of a folder."""
    files = [source]
    if source.path.is_dir():
        files = [
            source.sibling(p) for p in sorted(source.path.iterdir()) if ".json" in p.name and p.is_file()
        ]
        if not files:
            raise InputError(f"`{source.path}` holds no JSON files", hint="name the folder of agent sessions")
    for file in files:
        data = file.document()
        name = f", in `{file.path.name}`" if source.path.is_dir() else ""
        try:
            value = json.loads(data)
            yield from ((name, each) for each in (value if isinstance(value, list) else [value]))
        except RecursionError:
            raise InputError(
                f"`{file.path}`: JSON is nested too deeply", hint="this is no agent session"
            ) from None
        except ValueError:
            for line_number, line in enumerate(data.split(b"\n"), 1):
                try:
                    if line.strip():
                        yield name, fields.parse_object(line)
                except BadRow as reason:
                    problems.bad(line_number, str(reason))


def _add_session(rows: RowsBuilder, number: int, session: object, options: ReadOptions) -> None:
    if not isinstance(session, dict) or not isinstance(session.get("requests"), list):
        raise BadRow("not an agent session with a list of `requests`")
    scope = session.get("hash_id_scope", "local")
    if scope not in ("local", "global"):
        raise BadRow("`hash_id_scope` is neither local nor global")
    size = fields.count(session, "block_size", default=options.block_tokens or BLOCK_TOKENS)
    if not 0 < size < 2**31 or rows.block_tokens not in (None, size):
        raise BadRow("`block_size` is 0, or differs from other sessions or `--block-tokens`")
    rows.block_tokens = size
    name = fields.session(session.get("id")) or number
    root = fields.label(f"{number}/{name}") if scope == "local" else ROOT
    for request, time in _flat(session["requests"], 0.0, 0):
        rows.add(
            number,
            chain(fields.labels(request, "hash_ids"), root),
            time,
            fields.count(request, "in"),
            fields.count(request, "out", default=-1),
            name,
        )


def _flat(requests: list[Any], start: float, depth: int) -> Iterator[tuple[dict[str, Any], float]]:
    if depth > _MAX_NESTING:
        raise BadRow("sub-agents are nested too deeply")
    for request in requests:
        if not isinstance(request, dict):
            raise BadRow("a request is not an object")
        time = start + fields.time(request, "t")
        if isinstance(request.get("requests"), list):
            yield from _flat(request["requests"], time if time == time else start, depth + 1)
        else:
            yield request, time
