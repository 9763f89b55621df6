"""YAML (and so JSON) as nodes that know their place; events only, so nothing is built and nothing runs."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from warmset.checks.text import Source, Text, Word, align, word
from warmset.errors import InputError

MAX_DEPTH = 64
# What a document may grow to when its aliases are followed: far above any manifest, far below a bomb.
MAX_NODES = 200_000

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(eq=False, slots=True)
class Node:
    """A scalar, a sequence or a mapping; `size` counts the nodes below it with aliases followed."""

    kind: str
    source: Source
    start: int
    end: int
    value: str = ""
    style: str | None = None
    items: "list[Node]" = field(default_factory=list)
    pairs: "list[tuple[Node, Node]]" = field(default_factory=list)
    size: int = 1

    @property
    def text(self) -> Text:
        """A scalar's value as a text."""
        return align(self.source, self.start, self.end, self.value)

    @property
    def word(self) -> Word:
        """The node as a word; of a mapping or sequence, the word of its first character."""
        if self.kind == "scalar":
            return word(self.text)
        return Word("", Text("", self.source, self.start), 0, 1)

    def get(self, *path: str) -> "Node | None":
        """The value under a path of keys, or None."""
        node: Node | None = self
        for key in path:
            if node is None or node.kind != "map":
                return None
            node = next((v for k, v in node.pairs if k.value == key), None)
        return node

    def key(self, name: str) -> "Node | None":
        """The key node itself."""
        return next((k for k, _ in self.pairs if k.value == name), None)

    def keys(self) -> set[str]:
        """The names of a mapping's keys."""
        return {k.value for k, _ in self.pairs}

    def scalar(self, *path: str) -> str | None:
        """The text of a scalar under a path, or None (also for YAML's null)."""
        node = self.get(*path)
        if node is None or node.kind != "scalar" or (node.style is None and node.value in ("", "~", "null")):
            return None
        return node.value

    def walk(self) -> "Iterator[tuple[tuple[Node, ...], Node]]":
        """Every node with its ancestors, outermost first."""
        stack: list[tuple[tuple[Node, ...], Node]] = [((), self)]
        while stack:
            above, node = stack.pop()
            yield above, node
            children = [*node.items, *(v for _, v in node.pairs)]
            stack.extend(((*above, node), child) for child in reversed(children))

    def python(self) -> object:
        """Plain Python values, scalars resolved as YAML 1.1 does for numbers, booleans and null."""
        if self.kind == "map":
            return {k.value: v.python() for k, v in self.pairs}
        if self.kind == "seq":
            return [item.python() for item in self.items]
        return self.value if self.style is not None else _plain(self.value)


def documents(source: Source, text: Text | None = None) -> list[Node]:
    """The documents of a YAML or JSON text.

    Raises InputError for text that is not YAML, for nesting beyond MAX_DEPTH, for aliases that refer to
    themselves and for documents beyond MAX_NODES.
    """
    content = source.text if text is None else text.value
    if "\\ud" in content or "\\uD" in content:
        # JSON writes characters beyond the BMP as two escapes, which YAML refuses; the same length keeps offsets.
        content = _SURROGATE.sub(r"\\ufffd", content)
    roots: list[Node] = []
    stack: list[tuple[Node, list[Node]]] = []
    anchors: dict[str, Node | None] = {}
    total = 0
    try:
        for event in yaml.parse(content, Loader=_Loader):
            if isinstance(event, yaml.DocumentStartEvent):
                anchors = {}
                continue
            if isinstance(event, (yaml.StreamStartEvent, yaml.StreamEndEvent, yaml.DocumentEndEvent)):
                continue
            if isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                node, children = stack.pop()
                _close(node, children, _at(event.end_mark))
            elif isinstance(event, yaml.AliasEvent):
                found = anchors.get(event.anchor or "")
                if found is None:
                    raise _refuse(
                        source, event, f"alias `*{(event.anchor or '')[:40]}` refers to itself or to nothing"
                    )
                node = found
            else:
                node = _open(source, event)
                anchor: str | None = getattr(event, "anchor", None)
                if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
                    if len(stack) >= MAX_DEPTH:
                        raise _refuse(source, event, f"nesting goes deeper than {MAX_DEPTH}")
                    stack.append((node, []))
                    if anchor:
                        anchors[anchor] = None
                        node.value = anchor
                    continue
                if anchor:
                    anchors[anchor] = node
            if node.kind != "scalar" and node.value:
                anchors[node.value] = node
            total += node.size
            if node.size > MAX_NODES or total > 2 * MAX_NODES:
                raise _refuse(source, event, f"the document grows beyond {MAX_NODES:,} nodes")
            (stack[-1][1] if stack else roots).append(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        problem = str(getattr(error, "problem", None) or error).splitlines()[0][:200]
        raise InputError(
            f"`{source.name}` is not valid YAML{where}: {problem}",
            hint="a Helm template must be rendered first (`helm template`)"
            if "{{" in content
            else "repair the file there, or leave it out",
        ) from None
    if text is not None:
        _rebase(roots, source, text)
    return roots


def _open(source: Source, event: yaml.Event) -> Node:
    start, end = _at(event.start_mark), _at(event.end_mark)
    if isinstance(event, yaml.ScalarEvent):
        style = event.style if event.style in ("'", '"', "|", ">") else None
        return Node("scalar", source, start, end, event.value, style)
    return Node("map" if isinstance(event, yaml.MappingStartEvent) else "seq", source, start, end)


def _close(node: Node, children: list[Node], end: int) -> None:
    node.end = end
    if node.kind == "seq":
        node.items = children
    else:
        node.pairs = list(zip(children[::2], children[1::2], strict=False))
        for key, value in list(node.pairs):
            if key.value == "<<" and key.style is None:
                _merge(node, value)
    node.size = 1 + sum(child.size for child in children)


def _merge(node: Node, value: Node) -> None:
    have = node.keys()
    for parent in value.items if value.kind == "seq" else [value]:
        node.pairs.extend((k, v) for k, v in parent.pairs if k.value not in have)
        have |= parent.keys()


def _rebase(roots: list[Node], source: Source, text: Text) -> None:
    """Move nodes of an embedded document to their offsets in the outer file."""
    seen: set[int] = set()
    for root in roots:
        for _, node in root.walk():
            for each in (node, *(k for k, _ in node.pairs)):
                if id(each) not in seen:
                    seen.add(id(each))
                    each.start, each.end = text.offset(each.start), text.offset(max(0, each.end - 1)) + 1


def _refuse(source: Source, event: yaml.Event, problem: str) -> InputError:
    return InputError(
        f"`{source.name}` line {_line(event.start_mark)}: {problem}",
        hint="this is not a manifest that a server would be deployed from",
    )


def _at(mark: Any) -> int:
    return int(mark.index)


def _line(mark: Any) -> int:
    return int(mark.line) + 1


def _plain(value: str) -> object:
    lowered = value.lower()
    if lowered in ("", "~", "null"):
        return None
    if lowered in ("true", "yes", "on"):
        return True
    if lowered in ("false", "no", "off"):
        return False
    try:
        return int(value.replace("_", ""))
    except ValueError:
        pass
    try:
        return float(value)
    except ValueError:
        return value
