"""Every command that a verdict suggests is one that warmset accepts, once its placeholders are filled in."""

import importlib
import inspect
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from warmset.cli.main import COMMANDS
from warmset.cli.main import main as warmset
from warmset.meters import meters, scrape, steps, window
from warmset.meters.thresholds import DEFAULTS
from warmset.servers import engine

_FILLED = {
    "MODEL": "llama-3.1-8b",
    "GPU": "h100-80gb",
    "SESSIONS": "200",
    "TOKENS": "8192",
    "SIZE": "256GiB",
    "BYTES": "131072",
}
_PAGES = {
    "vllm": 'vllm:prompt_tokens_total{engine="0",model_name="m"} 5\n',
    "sglang": 'sglang:prompt_tokens_total{model_name="m"} 5\n',
    "lmcache": "lmcache_mp:lookup_requested_tokens_total 5\n",
}


def _suggested(server: str) -> set[str]:
    """The commands of every function that suggests some, for one server and version."""
    plain = meters(window(None, scrape(_PAGES[server.partition("@")[0]])), engine(server))
    sized = replace(
        plain, tier=replace(plain.tier, device_pool_tokens=40_000.0, bytes_per_token=131_072.0), seconds=60.0
    )
    known: dict[str, Any] = {"t": DEFAULTS, "base": None}
    found: set[str] = set()
    for name, function in inspect.getmembers(steps, inspect.isfunction):
        if name.startswith("_") or function.__module__ != steps.__name__:
            continue
        names = list(inspect.signature(function).parameters)[1:]
        for m in (plain, sized):
            for base in (None, object()) if "base" in names else (None,):
                arguments = [base if n == "base" else known[n] for n in names]
                said = function(m, *arguments)
                found |= {s.command for s in (said if isinstance(said, list) else [said]) if s.command}
    return found


@pytest.mark.parametrize(
    "server", ["vllm@0.10", "vllm@0.12", "vllm@0.19", "vllm@0.32", "sglang@0.5.23", "lmcache@0.5.6"]
)
def test_suggested_commands_are_accepted(
    server: str, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    page = str(shared / "metrics" / "light_big.end.prom")
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"timestamp":0,"input_length":1024,"output_length":5,"hash_ids":[1,2]}\n' * 3)
    suggested = _suggested(server)
    assert {shlex.split(c)[1] for c in suggested if c.startswith("warmset ")} >= {
        "plan", "launch", "measure", "check", "curve", "export",
    }  # fmt: skip
    for command in suggested:
        if not command.startswith("warmset "):
            continue
        words = [_FILLED.get(w, w) for w in shlex.split(command.partition(" > ")[0], comments=True)[1:]]
        if words[0] == "measure":  # there is no server to ask: it is enough that the parser takes it
            importlib.import_module(COMMANDS["measure"][0]).command.make_context("measure", words[1:])
            continue
        words = [page if w.startswith("http://") else str(trace) if w == "TRACE" else w for w in words]
        if words[-1] == "…":
            words[-1:] = ["--model-path", "x", "--enable-hierarchical-cache"] if "sglang" in server else ["m"]
        assert warmset(words) == 0, (command, capsys.readouterr().err)


def test_commands_in_messages_parse(root: Path) -> None:
    """Those that rules, curves and alerts name: the parser takes each once its placeholders are filled in."""
    known = _FILLED | {"URL": "http://h:8000", "TRACE": "t.jsonl", "STORE": "file:///kv", "RULE": "pin-limit"}
    found = set()
    for path in (*(root / "src/warmset/checks").rglob("*.py"), *(root / "src/warmset/curves").rglob("*.py"),
                 root / "src/warmset/report/alerts.py"):  # fmt: skip
        found |= set(
            re.findall(r"`warmset ([^`{}]+ [^`{}]+)`|\"warmset ([^\"{}]+ [^\"{}]+)\"", path.read_text())
        )
    commands = {a or b for a, b in found}
    assert len(commands) >= 8
    for command in commands - {"trace info"}:
        words = [known.get(w, w) for w in shlex.split(command.partition(" > ")[0])]
        module = importlib.import_module(COMMANDS[words[0]][0])
        module.command.make_context(words[0], words[1:])
