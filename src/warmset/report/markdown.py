"""Writes a document as Markdown, for pull requests and wikis."""

from warmset.report.document import Block, Bullets, Code, Document, Facts, Line, Table


def to_markdown(document: Document) -> str:
    """The whole document as GitHub-flavoured Markdown."""
    parts = [f"**{document.headline.text}**"]
    for section in document.sections:
        if section.title:
            parts.append(f"### {section.title}")
        parts.extend(_block(block) for block in section.blocks)
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> str:
    match block:
        case Line(text):
            return text
        case Bullets(items):
            return "\n".join(f"- {item}" for item in items)
        case Facts(rows):
            return _table(("", "", ""), rows, frozenset())
        case Table(headers, rows, right):
            return _table(headers, rows, right)
        case Code(text, language):
            # A fence longer than any run of backticks inside.
            fence = "```" if "```" not in text else "````"
            return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _table(headers: tuple[str, ...], rows: tuple[tuple[str, ...], ...], right: frozenset[int]) -> str:
    rule = ("---:" if i in right else "---" for i in range(len(headers)))
    return "\n".join("| " + " | ".join(_cell(c) for c in row) + " |" for row in (headers, tuple(rule), *rows))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
