"""Where `warmset check` can judge nothing, it says so: an answer without findings means that it looked."""

import gzip
import io
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from warmset.checks.collect import read
from warmset.checks.running import read_page
from warmset.checks.text import NothingToCheck, read_source

_NAMES = (
    "server.log", "server.out", "values.yaml", "rules.yml", "lmcache.json", "server.env", ".env", "start.sh",
    "start.ps1", "vllm.service", "Dockerfile", "command", "pod.dockerfile",
)  # fmt: skip
_NGINX = "2026-01-01 10:00:00 [notice] 1#1: nginx/1.25.3\n2026-01-01 10:00:01 GET /index.html 200\n"
_PROXY = "INFO 2026-01-01 GET / 200\nTraceback (most recent call last):\nValueError: no\n"
_OTHERS = {
    "nginx.log": _NGINX,
    "app.out": _PROXY,
    "unnamed": _NGINX,
    "database.env": "DATABASE_URL=postgres://x\nDEBUG=1\n",
    "node.rules.yaml": "groups: [{name: a, rules: [{record: a, expr: 'instance:node_cpu:rate5m > 3'}]}]\n",
    "comments.yaml": "# nothing yet\n",
    "comments.sh": "#!/bin/sh\n# vllm serve m\n",
    "web.yaml": "services: {web: {image: nginx, command: nginx -g x}}\n",
    "web.service": "[Service]\nExecStart=/usr/bin/nginx\n",
    "Dockerfile": 'FROM nginx\nCMD ["nginx"]\n',
    "list.json": "[]\n",
}
_EMPTY_HINT = "give what starts or configures the server, or its log: `kubectl logs POD > server.log`"


def _error(ran: Any) -> str:
    assert (ran.code, ran.out) == (2, "")
    said, hint = ran.err.split("\n\nhint: ")
    assert hint
    return str(said)


@pytest.mark.parametrize("content", ["", "\n", " \t\r\n\n", "\ufeff", "\ufeff\n"], ids=repr)
@pytest.mark.parametrize("name", _NAMES)
def test_an_empty_file(warmset: Callable[..., Any], tmp_path: Path, name: str, content: str) -> None:
    file = tmp_path / name
    file.write_text(content)
    ran = warmset("check", file)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"error: nothing to check in `{file}`: it is empty\n\nhint: {_EMPTY_HINT}\n"


@pytest.mark.parametrize("form", ["table", "json", "sarif", "github"])
def test_beside_something_that_can_be_checked(warmset: Callable[..., Any], tmp_path: Path, form: str) -> None:
    """A log that is named belongs to the answer: without it, the answer is not whole."""
    empty, other = tmp_path / "empty.log", tmp_path / "nginx.log"
    empty.write_text("\n")
    other.write_text(_NGINX)
    for log, said in ((empty, "it is empty"), (other, "no line is one of vLLM, SGLang, LMCache or Mooncake")):
        ran = warmset("check", "-o", form, "--log", log, "--", "vllm", "serve", "m")
        assert _error(ran) == f"error: nothing to check in `{log}`: {said}"


def test_a_log_that_is_not_recognised_hides_no_error(warmset: Callable[..., Any], tmp_path: Path) -> None:
    script, other = tmp_path / "serve.sh", tmp_path / "other.log"
    script.write_text("vllm serve m --kv-offloading-sise 40\n")
    other.write_text(_NGINX)
    alone, beside = (warmset("check", script, *more) for more in ((), (other,)))
    assert beside.code == alone.code == 1
    assert f"passed over: no line of `{other}` is one of a known server" in beside.out


_PLAIN = "INFO 11-30 05:17:33 [async_llm.py:261] Added request chatcmpl-1."


@pytest.mark.parametrize(
    "line",
    [
        _PLAIN,
        f"2026-11-30T05:17:33.123456789Z {_PLAIN}",
        f"[pod/llm-0/server] {_PLAIN}",
        f"server-1  | {_PLAIN}",
        f"\x1b[32mINFO\x1b[0m{_PLAIN.removeprefix('INFO')}",
        "INFO 2026-11-30 05:17:33,101 [async_llm.py:261] Added request chatcmpl-1.",
        "INFO 01-30 05:17:33 metrics.py:455] Avg prompt throughput: 0.0 tokens/s",
        "[2026-11-30 05:17:33 TP0] Decode batch. #running-req: 1, #token: 233, token usage: 0.00",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    ],
)
def test_lines_of_servers_behind_any_prefix(warmset: Callable[..., Any], tmp_path: Path, line: str) -> None:
    (tmp_path / "server.log").write_text(line + "\n")
    assert warmset("check", tmp_path / "server.log").code == 0


@pytest.mark.parametrize("content", [b"", b"\n \n", _NGINX.encode()])
def test_standard_input(warmset: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert _error(warmset("check", "-")).startswith("error: nothing to check in `<stdin>`: ")


@pytest.mark.parametrize("name", _OTHERS)
def test_what_is_of_no_server(warmset: Callable[..., Any], tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text(_OTHERS[name])
    assert _error(warmset("check", file)).startswith(f"error: nothing to check in `{file}`: no ")
    ran = warmset("check", "--skip-others", file)
    assert (ran.code, ran.out, ran.err) == (0, "", "nothing to check\n")


def test_a_directory_passes_over_them(warmset: Callable[..., Any], tmp_path: Path) -> None:
    for name, text in _OTHERS.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "empty.log").write_text("")
    assert ", and " not in _error(warmset("check", tmp_path))
    (tmp_path / "start.sh").write_text("vllm serve m --cpu-offload-gb 4\n")
    said = warmset("check", tmp_path, "-o", "json").valid("check")
    assert [f["rule"] for f in said["findings"] if f["severity"] == "error"] == ["weights-not-kv"]
    assert f"passed over: nothing to check in `{tmp_path}/empty.log`: it is empty" in said["notes"]
    assert f"passed over: no line of `{tmp_path}/nginx.log` is one of a known server" in said["notes"]


def test_a_page_of_another_program() -> None:
    with pytest.raises(NothingToCheck, match="`http://x/metrics` serves no metrics of vLLM"):
        read_page("# TYPE node_cpu_seconds_total counter\nnode_cpu_seconds_total 1\n", "http://x/metrics")


def test_a_log_without_its_start_says_so(warmset: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "tail.log"
    file.write_text("INFO 09-01 10:00:00 [loggers.py:1] Engine 000: Avg prompt throughput: 3.0 tokens/s\n")
    said = warmset("check", file, "-o", "json").json()
    note = f"`{file}` has no start-up line: it tells neither version nor pool, only what went wrong"
    assert note in said["notes"]
    file.write_text("INFO 09-01 10:00:00 [api_server.py:1] vLLM API server version 0.32.0\n")
    assert note not in warmset("check", file, "-o", "json").json()["notes"]


def _real_logs(root: Path) -> list[tuple[str, str]]:
    logs = [(str(p), p.read_text()) for p in sorted((root / "tests/cases").glob("[cg]*/**/*.log"))]
    for path in sorted((root / "tests/unit/checks/cases").glob("*.yaml")):
        for cases in yaml.safe_load(path.read_text()).values():
            for case in cases if isinstance(cases, list) else ():
                texts = {case.get("name", ""): case["text"], **case.get("also", {})}
                logs += [
                    (f"{path.name}: {name}", text) for name, text in texts.items() if name.endswith("log")
                ]
    return logs


def test_logs_of_servers_are_known(root: Path) -> None:
    logs = _real_logs(root)
    assert len(logs) > 40
    for name, text in logs:
        log = read(read_source("server.log", text.encode())).log
        assert log is not None
        assert log.of_server, name


def test_a_finding_makes_it_a_servers_log(warmset: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    file.write_text("OSError: resource_tracker: There appear to be 4 leaked shared_memory objects\n")
    assert [f["rule"] for f in warmset("check", file, "-o", "json").json()["findings"]] == ["log-failure"]


def test_long_lines_of_another_program_end_soon() -> None:
    for text in ("(" + "a" * 3990 + "\n") * 500, "(a" * 1_000_000, "INFO 01-01 10:00:00 [" + "a." * 1_000_000:
        start = time.process_time()
        log = read(read_source("server.log", text.encode())).log
        assert log is not None
        assert not log.of_server
        assert time.process_time() - start < 2


_PROSE = """# Our servers

We run vLLM with LMCache, and the KV cache is offloaded to host memory. See SGLang for HiCache.

## Commands

    kubectl get pods
    curl http://localhost:8000/metrics
"""


@pytest.mark.parametrize("name", ["README.md", "notes.txt", "notes", "server.log", "page.rst", "-"])
def test_prose_that_names_servers_is_no_log(
    warmset: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    file: Path | str = "-"
    if name == "-":
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(_PROSE.encode())))
    else:
        file = tmp_path / name
        file.write_text(_PROSE)
    ran = warmset("check", file)
    assert ran.code == 2
    assert "nothing to check" in ran.err
    assert "log" in ran.err.partition("hint: ")[2]


def test_the_documentation_is_no_log(warmset: Callable[..., Any], root: Path) -> None:
    for page in (root / "README.md", *sorted((root / "docs").glob("*/*.md"))):
        assert warmset("check", page).code == 2, page


def test_a_log_that_is_kept_as_a_page_is_read(warmset: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "issue.md"
    file.write_text("INFO 09-01 10:00:00 [api_server.py:1] vLLM API server version 0.32.0\n" * 3)
    assert warmset("check", file).code == 0
    file.write_text("Start it so:\n\n    vllm serve m --swap-space 40\n")
    assert "swap-space" in warmset("check", file).out


def test_a_saved_page_of_metrics_is_judged_as_the_server_behind_it(
    warmset: Callable[..., Any], tmp_path: Path, root: Path
) -> None:
    page = gzip.decompress((root / "tests/golden/live/no_prefix_cache-chat.end.prom.gz").read_bytes())
    for name in ("page.prom", "page.txt", "page"):
        (tmp_path / name).write_bytes(page)
        ran = warmset("check", tmp_path / name, "-o", "json")
        assert ran.code in (0, 1)
        assert "running-tier" in {finding["rule"] for finding in json.loads(ran.out)["findings"]}
    (tmp_path / "other.prom").write_text("# TYPE node_cpu counter\nnode_cpu 1\n")
    assert "serves no metrics of vLLM" in _error(warmset("check", tmp_path / "other.prom"))
