"""The guard leaves nothing behind, whoever ends what, and in which way."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from warmset.lab import guard, server

if not Path("/proc/self/maps").exists():
    pytest.skip("the guard needs /proc", allow_module_level=True)

# A command that ignores SIGTERM, maps shared memory and starts a daemon in a session of its own.
NASTY = """
import mmap, os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
fd = os.open("/dev/shm/" + sys.argv[1], os.O_CREAT | os.O_RDWR)
os.ftruncate(fd, 4096)
kept = mmap.mmap(fd, 4096)
# As glibc does with semaphores: mapped under one name, then given another.
os.link("/dev/shm/" + sys.argv[1], "/dev/shm/" + sys.argv[1] + "_named")
os.unlink("/dev/shm/" + sys.argv[1])
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", sys.argv[1]], start_new_session=True)
print("up", flush=True)
time.sleep(float(sys.argv[2]))
"""


@pytest.fixture
def mark():
    name = f"warmset_guard_{os.getpid()}_{time.monotonic_ns()}"
    yield name
    for path in Path("/dev/shm").glob(f"{name}*"):
        path.unlink()


def words(mark, seconds):
    return [sys.executable, guard.__file__, sys.executable, "-c", NASTY, mark, str(seconds)]


def left(mark):
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "cmdline").read_bytes():
                found.append(entry.name)
        except OSError:
            continue
    return found + [path.name for path in Path("/dev/shm").glob(f"{mark}*")]


def wait_until_gone(mark, seconds=20):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and left(mark):
        time.sleep(0.1)
    return left(mark)


def test_orphans_and_shared_memory_go_when_the_command_ends(mark):
    assert subprocess.run(words(mark, 1.5), stdout=subprocess.PIPE, timeout=30, check=False).returncode == 0
    assert left(mark) == []


def test_a_stubborn_command_is_killed_on_request(mark):
    process = subprocess.Popen(words(mark, 600), stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 128 + signal.SIGTERM
    assert left(mark) == []


def test_everything_goes_when_the_parent_is_killed(mark):
    parent = subprocess.Popen(
        [sys.executable, "-c", f"import subprocess; subprocess.run({words(mark, 600)!r})"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout.readline() == "up\n"
    parent.kill()
    parent.wait()
    assert wait_until_gone(mark) == []


def test_temporary_files_of_the_command_go_with_it(tmp_path):
    show = "import os, tempfile; print(tempfile.mkstemp()[1], os.environ['TMPDIR'])"
    done = subprocess.run(
        [sys.executable, guard.__file__, sys.executable, "-c", show],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    file, scratch = map(Path, done.stdout.split())
    assert file.parent == scratch or len(str(scratch)) >= 70
    assert done.returncode == 0
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_the_exit_code_is_the_commands():
    for code in (0, 7):
        done = subprocess.run(
            [sys.executable, guard.__file__, sys.executable, "-c", f"raise SystemExit({code})"], check=False
        )
        assert done.returncode == code


def test_ctrl_c_while_a_server_is_ended_comes_after_its_end(tmp_path):
    slow = "import signal, sys, time; signal.signal(15, lambda *_: (time.sleep(1.5), sys.exit()))"
    slow += "; print('up', flush=True); time.sleep(600)"
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012, SIM117  # it is raised on leaving
        with server.command(
            [sys.executable, "-c", slow], tmp_path / "log", environment=os.environ
        ) as process:
            while (tmp_path / "log").read_text() != "up\n":
                time.sleep(0.05)
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    assert process.poll() is not None
