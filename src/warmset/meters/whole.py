"""What is no whole page of metrics: other documents, and pages that were cut short."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warmset.errors import InputError

if TYPE_CHECKING:
    from warmset.meters.exposition import Labels, Sample

_SLICE = 2**22
# Repeating all of a page's odd lines in an error would make the error as long as the page.
SHOWN = 80


def lines(text: str) -> Iterator[str]:
    """The lines of a text, split a slice at a time: a list of all of them can be larger than the text."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + _SLICE)
        end = len(text) if end < 0 else end
        yield from text[start:end].split("\n")
        start = end + 1


def refuse_other_documents(text: str) -> None:
    """Refuse what is evidently HTML, JSON or binary, and say which."""
    head = text[:512].lstrip("\ufeff \t\r\n").lower()
    if head.startswith("<"):
        title = re.search(r"<title>([^<]{0,60})", text[:4096], re.IGNORECASE)
        said = f" titled `{title[1].strip()}`" if title else ""
        raise InputError(
            f"this is an HTML or XML page{said}, not metrics",
            hint="check host, port and path: vLLM serves its metrics on its API port under `/metrics`",
        )
    if (head.startswith(("{", "[")) and not head.startswith('{"')) or head.startswith(
        ('{"error', '{"detail')
    ):
        raise InputError(
            "this is JSON, not metrics", hint="give the address of `/metrics`, or a saved page of it"
        )
    if "\x00" in text[:65536]:
        raise InputError("this is binary data, not metrics", hint="save the page with `warmset snapshot URL`")


def refuse_cut(text: str, samples: "dict[str, list[Sample]]", ended: bool) -> None:
    """Refuse a page that evidently ends too early: what was cut off would read as a small number."""
    if "\n# UNIT " in text and not ended:  # UNIT lines exist in OpenMetrics only
        raise InputError(
            "the page ends without `# EOF`",
            hint="the page is cut short; fetch it again with `warmset snapshot URL`",
        )
    _refuse_cut_line(text)
    # Only the last histogram of a page can be cut in the middle.
    last = next((name for name in reversed(samples) if name.endswith("_bucket")), None)
    if last is None:
        return
    series = {tuple(pair for pair in labels if pair[0] != "le") for labels, _ in samples[last]}
    complete = sum(1 for labels, _ in samples[last] if _is_infinite(labels))
    family = last.removesuffix("_bucket")
    # Pages put together by hand may do without the counts, and then without all of them.
    counts = any(name.endswith("_count") for name in samples)
    if complete < len(series) or (counts and len(samples.get(f"{family}_count", ())) < len(series)):
        raise InputError(
            f"histogram `{family}` lacks its `+Inf` bucket or its count",
            hint="the page is cut short; fetch it again with `warmset snapshot URL`",
        )


def _refuse_cut_line(text: str) -> None:
    """Servers end every line; a last line without an end is refused where it is a comment, or a number that is shorter
    than such numbers are on this page. Pages written by hand may lack the end of the last line.
    """
    if text.endswith("\n"):
        return
    last = text[text.rfind("\n") + 1 :].rstrip("\r")
    cut = last.startswith("#") and last.split() != ["#", "EOF"]
    if last and not last.startswith("#"):
        first = next((line for line in lines(text) if line and not line.startswith("#")), "")
        written = first.rpartition(" ")[2]
        cut = last.endswith(".") or ("." in written and last.rpartition(" ")[2].isdigit())
    if cut:
        raise InputError(
            f"the page ends in the middle of a line: `{last[:SHOWN]}`",
            hint="the page is cut short; fetch it again with `warmset snapshot URL`",
        )


def _is_infinite(labels: "Labels") -> bool:
    return any(name == "le" and value.lstrip("+").lower() in ("inf", "infinity") for name, value in labels)
