"""One way out for every command: a payload and a document go to standard output in the form asked for."""

import sys
from collections.abc import Callable

from warmset.report.document import Document

FORMATS = ("table", "json", "yaml", "md")
TABULAR_FORMATS = (*FORMATS, "csv")


def emit(
    form: str,
    payload: Callable[[], dict[str, object]],
    document: Callable[[], Document],
    *,
    color: str = "auto",
) -> None:
    """Write in `form` (one of TABULAR_FORMATS); only what that form needs is built."""
    out = sys.stdout
    if form in ("json", "yaml"):
        from warmset.report.data import to_json, to_yaml

        out.write(to_json(payload()) if form == "json" else to_yaml(payload()))
    elif form == "md":
        from warmset.report.markdown import to_markdown

        out.write(to_markdown(document()))
    elif form == "csv":
        from warmset.report.data import to_csv

        out.write(to_csv(document()))
    else:
        from warmset.report.text import write_text

        write_text(document(), out, color)
    out.flush()
