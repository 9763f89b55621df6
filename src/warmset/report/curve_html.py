"""The hit-rate curve as one HTML file: data, chart and styles inside, nothing loaded from elsewhere."""

import json
from html import escape
from importlib.resources import files

from warmset.curves.study import Study
from warmset.report.curve import document, payload
from warmset.report.data import plain
from warmset.report.document import Facts, Section, Table

# The browser itself then refuses every request that leaves the page.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def to_html(study: Study) -> str:
    """The whole report; the element `warmset-data` holds the JSON of the command."""
    said = document(study)
    tables = [b for section in said.sections for b in section.blocks if isinstance(b, Table)]
    facts = [b for section in said.sections for b in section.blocks if isinstance(b, Facts)]
    notes = "".join(f"<li>{escape(note)}</li>" for note in payload(study)["notes"])
    title = f"Hit rate by capacity: {study.source}"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>
{_asset("curve.css")}</style>
</head>
<body>
<h1>{escape(said.headline.text)}</h1>
<p class="source">{escape(study.source)}</p>
<dl class="facts">{"".join(_facts(block) for block in facts)}</dl>
<div class="bar">
<button id="log" aria-pressed="true">log axis</button>
<button id="linear" aria-pressed="false">linear axis</button>
<button id="unit" hidden></button>
<button id="reset">whole range</button>
<span>drag or scroll to zoom, double-click for the whole range</span>
</div>
<svg id="chart" viewBox="0 0 1000 440" role="img" aria-label="{escape(title)}"></svg>
<div id="readout" aria-live="polite"></div>
<h2>{escape(_table_title(said.sections))}</h2>
<div class="scroll">{"".join(_table(block) for block in tables)}</div>
{f"<h2>Notes</h2><ul>{notes}</ul>" if notes else ""}
<script type="application/json" id="warmset-data">{_embedded(study)}</script>
<script>
{_asset("curve.js")}</script>
</body>
</html>
"""


def _embedded(study: Study) -> str:
    # `<` is the only way out of a script element.
    return json.dumps(plain(payload(study)), allow_nan=False).replace("<", "\\u003c")


def _asset(name: str) -> str:
    return (files("warmset.report") / "assets" / name).read_text(encoding="utf-8")


def _facts(block: Facts) -> str:
    # The trace stands above already.
    return "".join(
        f'<div class="fact"><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(more)}</small></dd></div>'
        for name, value, more in block.rows
        if name != "trace"
    )


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.headers)
    body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in table.rows)
    return f'<table id="points"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _table_title(sections: tuple[Section, ...]) -> str:
    return next((s.title for s in sections if any(isinstance(b, Table) for b in s.blocks)), "")
