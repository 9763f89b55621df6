"""Ctrl-C at any moment of a command: no traceback, exit 130."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import warmset as package
from warmset.cli import main as main_module

_PLAN = ("plan", "llama-3.1-8b", "--hbm-kv", "28", "--sessions", "9", "--context", "1k")
_SAID = (130, "", "error: interrupted")
# Python reads this at its start; from the N-th import of the command on it presses Ctrl-C, once.
_PRESSES = """
import os, signal, sys
left = int(os.environ["PRESS_AT_IMPORT"])
def hook(event, arguments):
    global left
    if event == "import" and "warmset.__main__" in sys.modules:
        left -= 1
        if left == 0:
            signal.raise_signal(signal.SIGINT)
if left:
    sys.addaudithook(hook)
"""


def _start(words: tuple[str, ...], **environment: str) -> subprocess.Popen[str]:
    """The command as its console script starts it, with Ctrl-C not ignored."""
    script = "import sys; from warmset.__main__ import main; sys.exit(main())"
    return subprocess.Popen(
        [sys.executable, "-c", script, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def test_at_any_import(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(_PRESSES, encoding="utf-8")
    for moment in (*range(1, 10), *range(10, 160, 10)):
        process = _start(_PLAN, PYTHONPATH=str(tmp_path), PRESS_AT_IMPORT=str(moment))
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err.strip()) == _SAID, (moment, err)


def test_at_any_time() -> None:
    """What Python itself says before our first line is Python's; after it, nothing but our words."""
    ours, interrupted = str(Path(package.__file__).parent), 0
    for milliseconds in range(0, 240, 10):
        process = _start(_PLAN)
        time.sleep(milliseconds / 1000)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert ours not in err, milliseconds
        interrupted += (process.returncode, err.strip()) == _SAID[::2]
        assert err.strip() in ("", _SAID[2]) or "Traceback" in err, milliseconds
    assert interrupted > 5


def test_where_python_drops_it(tmp_path: Path) -> None:
    """Whatever is raised in the callback of a weak reference is only printed; an import has one for its lock."""
    (tmp_path / "sitecustomize.py").write_text(
        "import signal, sys, weakref\n"
        "class Lock: pass\n"
        "def hook(event, arguments):\n"
        "    if event == 'import' and arguments[0] == 'warmset.api':\n"
        "        lock = Lock()\n"
        "        kept = weakref.ref(lock, lambda _: signal.raise_signal(signal.SIGINT))\n"
        "        del lock\n"
        "sys.addaudithook(hook)\n",
        encoding="utf-8",
    )
    process = _start(_PLAN, PYTHONPATH=str(tmp_path))
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.strip()) == _SAID


@pytest.mark.parametrize("moment", ["warmset.cli.main", "warmset.api"])
def test_a_job_in_the_background_does_not_hear_it(tmp_path: Path, moment: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        f"sys.addaudithook(lambda e, a: e == 'import' and a[0] == '{moment}' and signal.raise_signal(2))\n",
        encoding="utf-8",
    )
    process = _start(_PLAN, PYTHONPATH=str(tmp_path))
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert "Leave offload off" in out


def test_what_the_body_of_a_class_renames(warmset: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11 raises RuntimeError for whatever `__set_name__` raises: every enum has one."""

    class Renames:
        def __set_name__(self, owner: type, name: str) -> None:
            raise KeyboardInterrupt

    def importing(**_: object) -> None:
        type("Enum", (), {"member": Renames()})

    monkeypatch.setattr(main_module.cli, "main", importing)
    ran = warmset("plan")
    assert (ran.code, ran.out, ran.err.strip()) == _SAID


_LOSES = """
import signal, sys

class Name(str):
    def __repr__(self):
        signal.raise_signal(signal.SIGINT)
        return "name"

def renamed_by_python():
    import types
    module = types.ModuleType("module")
    module.__name__, sys.modules["module"] = Name("module"), module
    from module import nothing

def replaced(error):
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        pass
    raise error

def hook(event, arguments):
    if event == "import" and arguments[0] == "warmset.api":
        {lose}

sys.addaudithook(hook)
"""


@pytest.mark.parametrize(
    "lose",
    [
        "renamed_by_python()",
        "replaced(TypeError('expected a message argument'))",
        "replaced(OSError(5, 'Input/output error', 'file'))",
        "replaced(BrokenPipeError())",
        "import click; replaced(click.UsageError('no'))",
        "from warmset.errors import GateFailed; replaced(GateFailed('no'))",
    ],
)
@pytest.mark.parametrize("debug", [(), ("--debug",)])
def test_whatever_error_takes_its_place(tmp_path: Path, lose: str, debug: tuple[str, ...]) -> None:
    """An import that fails while Ctrl-C comes ends in a TypeError that knows nothing of it."""
    (tmp_path / "sitecustomize.py").write_text(_LOSES.replace("{lose}", lose), encoding="utf-8")
    process = _start((*_PLAN, *debug), PYTHONPATH=str(tmp_path))
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.strip()) == _SAID


def test_the_same_errors_without_ctrl_c(tmp_path: Path) -> None:
    text = _LOSES.replace("signal.raise_signal(signal.SIGINT)", "pass")
    text = text.replace("{lose}", "replaced(TypeError('expected a message argument'))")
    (tmp_path / "sitecustomize.py").write_text(text, encoding="utf-8")
    process = _start(_PLAN, PYTHONPATH=str(tmp_path))
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (70, "")
    assert err.startswith("error: internal error: TypeError: expected a message argument")


def test_a_closed_stream_is_not_taken_for_the_memory(tmp_path: Path) -> None:
    script = "import sys; from warmset.__main__ import main; sys.exit(main())"
    for closed in ("<&-", "2>&-"):
        ran = subprocess.run(
            ["sh", "-c", f'"$@" {closed}', "sh", sys.executable, "-c", script, *_PLAN],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        assert (ran.returncode, ran.stderr) == (0, "")
        assert "Leave offload off" in ran.stdout
