"""The Markdown that a pull request comment gets, word for word."""

from pathlib import Path

import pytest

from warmset.cli.main import main


def test_markdown(shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, saved = shared / "metrics", tmp_path / "before.json"
    pages = [
        str(folder / f"{name}.{edge}.prom") for name in ("chat_off", "chat_slow") for edge in ("start", "end")
    ]
    assert main(["measure", *pages[:2], "--save", str(saved)]) == 0
    capsys.readouterr()
    assert main(["measure", *pages[2:], "--baseline", str(saved), "--engine", "vllm@0.32", "-o", "md"]) == 0
    golden = Path(__file__).parent / "measure_chat_slow.md"
    assert capsys.readouterr().out == golden.read_text(encoding="utf-8")
