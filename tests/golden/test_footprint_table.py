"""The table that an operator reads, word for word. `UPDATE_GOLDENS=1 pytest tests/golden` rewrites the files."""

import os
from pathlib import Path

import pytest

from warmset.cli.main import main

GOLDEN = Path(__file__).parent / "footprint"
CASES = {
    "llama-3.1-8b": ("llama-3.1-8b", "--context", "8192", "--kv-dtype", "fp8", "--tp", "2"),
    "deepseek-v3": ("deepseek-v3", "--tp", "8", "--dcp", "4", "--speculative-tokens", "1"),
    "gemma-3-27b": ("gemma-3-27b", "--context", "32768"),
    "qwen3.5-27b": ("qwen3.5-27b", "--context", "100000", "--pp", "2"),
    "explicit": ("--layers", "32", "--kv-heads", "8", "--head-dim", "128", "--context", "8192"),
}


@pytest.mark.parametrize("name", CASES)
def test_table(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["footprint", *CASES[name]]) == 0
    text = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines()) + "\n"
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDENS"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")
