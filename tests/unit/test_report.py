"""One document, four forms: nothing is lost or invented between them."""

import io
import json
from fractions import Fraction

import pytest

from warmset.report.data import plain, to_csv, to_json, to_yaml
from warmset.report.document import Bullets, Code, Document, Facts, Line, Section, Table
from warmset.report.markdown import to_markdown
from warmset.report.text import write_text

LONG = "vllm serve MODEL --kv-transfer-config '" + '{"kv_connector":"OffloadingConnector"}' * 8 + "'"
DOCUMENT = Document(
    Line("offload: 230 GiB", "good"),
    (
        Section(
            "Sizes",
            (
                Facts((("warm set", "200 GiB", "200 × 8,192 tokens"),)),
                Table(("tier", "size"), (("inclusive", "230 GiB"), ("a|b", "[bold]")), frozenset({1})),
            ),
        ),
        Section("Type this", (Code(LONG), Bullets(("one", "two")), Line("a remark", "dim"))),
    ),
)


def _text(color: str = "auto") -> str:
    out = io.StringIO()
    write_text(DOCUMENT, out, color)
    return out.getvalue()


def test_a_pipe_gets_every_character_and_no_colour() -> None:
    text = _text()
    assert LONG in text
    assert "\x1b" not in text
    assert all(word in text for word in ("200 GiB", "200 × 8,192 tokens", "TIER", "[bold]", "- two"))
    assert all(line == line.rstrip() for line in text.splitlines())


def test_colour_when_asked() -> None:
    assert "\x1b[" in _text("always")


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in _text()


def test_markdown_keeps_tables_and_fences() -> None:
    text = to_markdown(DOCUMENT)
    assert "| inclusive | 230 GiB |" in text
    assert "| a\\|b | [bold] |" in text
    assert "| --- | ---: |" in text
    assert f"```shell\n{LONG}\n```" in text


def test_csv_is_the_first_table() -> None:
    assert to_csv(DOCUMENT) == "tier,size\ninclusive,230 GiB\na|b,[bold]\n"


def test_json_has_no_nan_and_exact_whole_numbers() -> None:
    assert json.loads(to_json({"a": Fraction(4, 2), "b": Fraction(1, 2), "c": (1, None)})) == {
        "a": 2,
        "b": 0.5,
        "c": [1, None],
    }
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="JSON"):
            to_json({"a": [bad]})


def test_yaml_says_the_same() -> None:
    import yaml

    payload = {"a": 1, "b": [True, None, 0.5], "c": "on"}
    assert yaml.safe_load(to_yaml(payload)) == plain(payload)


def test_a_narrow_terminal_breaks_no_word_and_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    name = "vllm:external_prefix_cache_hits_total"
    document = Document(
        Line("x"),
        (
            Section(
                "",
                (
                    Table(
                        ("what", "a long header", "metric"),
                        (("prompt tokens that the tier supplied", "1,000,000 tokens", name),),
                        frozenset({1}),
                    ),
                ),
            ),
        ),
    )
    monkeypatch.setenv("TERM", "xterm")
    for columns in (200, 80, 60, 20):
        monkeypatch.setenv("COLUMNS", str(columns))
        out = Terminal()
        write_text(document, out, "never")
        assert name in out.getvalue()
        assert "1,000,000 tokens" in out.getvalue()
        for word in ("prompt", "supplied", "LONG", "HEADER"):
            assert word in out.getvalue()
