"""`warmset check` as a user types it."""

import json
import os
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import jsonschema
import pytest
import yaml

from warmset import opening
from warmset.cli.main import main
from warmset.report.data import schema_text

SCRIPT = """#!/bin/bash
# one node
export LM_CACHE_CHUNK_SIZE=128
vllm serve Qwen/Qwen3-8B \\
  --cpu-offload-gb 10 \\
  --kv-transfer-config '{"kv_connector":"LMCacheConnector","kv_role":"kv_both",}'
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "start.sh"
    path.write_text(SCRIPT)
    return path


def _json(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, dict[str, Any]]:
    code = main(["check", "-o", "json", *args])
    result = json.loads(capsys.readouterr().out)
    jsonschema.validate(result, json.loads(schema_text("check")))
    return code, result


def test_weights_flag_alone_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    code, result = _json(capsys, "--", "vllm", "serve", "your-model", "--cpu-offload-gb", "40")
    assert code == 1
    finding = result["findings"][0]
    assert (finding["rule"], finding["severity"]) == ("weights-not-kv", "error")
    assert "*weights*" in finding["message"]
    assert finding["fix"] == "--kv-offloading-size 40"
    assert finding["text"] == "vllm serve your-model --cpu-offload-gb 40"
    assert finding["text"][finding["column"] - 1 : finding["end_column"] - 1] == "--cpu-offload-gb"


def test_the_right_flag_has_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    code, result = _json(capsys, "--", "vllm", "serve", "M", "--kv-offloading-size", "40")
    assert code == 0
    assert not [f for f in result["findings"] if f["severity"] == "error"]
    assert result["assumed"]["server"].startswith("vllm@")
    assert result["rules_run"] > 70
    assert {"host-memory", "mirror-tier"} <= {n["rule"] for n in result["not_checked"]}


def test_facts_and_several_paths(script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deploy = tmp_path / "deploy"
    deploy.mkdir()
    (deploy / "pod.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - image: vllm/vllm-openai\n"
        '    args: ["--model", "M", "--kv-offloading-size", "300"]\n'
    )
    (deploy / "chart.yaml").write_text("{{- if .Values.x }}\na: 1\n{{- end }}\n")
    args = ["--engine", "vllm@0.26", "--host-ram", "256GiB", "--gpus", "8", "deploy/", "start.sh"]
    code, result = _json(capsys, *args)
    assert code == 1
    assert {f["file"] for f in result["findings"]} == {"deploy/pod.yaml", "start.sh"}
    assert result["assumed"]["server"] == "vllm@0.26.0"
    assert any("passed over" in note and "chart.yaml" in note for note in result["notes"])
    assert "host-memory" in {f["rule"] for f in result["findings"]}


def test_text_shows_the_line_and_a_caret(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "start.sh"]) == 1
    out = capsys.readouterr().out
    assert "start.sh:5:3" in out
    assert "  --cpu-offload-gb 10 \\\n    ^~~~~~~~~~~~~~~~" in out
    assert "rules run" in out


def test_min_severity_and_fail_on(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, result = _json(capsys, "--min-severity", "error", "--fail-on", "never", "start.sh")
    assert code == 0
    assert {f["severity"] for f in result["findings"]} == {"error"}
    command = ["--", "vllm", "serve", "M", "--kv-offloading-size", "4"]
    assert main(["check", "--fail-on", "note", *command]) == 1
    assert main(["check", "--fail-on", "warning", *command]) == 0


def test_fix_prints_a_diff_and_changes_nothing(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--fix", "start.sh"]) == 0
    out = capsys.readouterr().out
    assert "-export LM_CACHE_CHUNK_SIZE=128\n+export LMCACHE_CHUNK_SIZE=128\n" in out
    assert '+  --kv-transfer-config \'{"kv_connector":"LMCacheConnector","kv_role":"kv_both"}\'' in out
    assert "cpu-offload-gb" not in "".join(line for line in out.splitlines() if line.startswith(("+", "-")))
    assert script.read_text() == SCRIPT


def test_a_comment_with_a_reason_suppresses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.sh"
    path.write_text(
        "# warmset: ignore[weights-not-kv] the model does not fit\nvllm serve M --cpu-offload-gb 4\n"
    )
    code, result = _json(capsys, str(path))
    assert code == 0
    assert result["findings"] == []
    assert result["suppressed"][0]["reason"] == "the model does not fit"
    path.write_text("vllm serve M --cpu-offload-gb 4  # warmset: ignore[weights-not-kv]\n")
    code, result = _json(capsys, str(path))
    assert code == 1
    assert {f["rule"] for f in result["findings"]} == {"weights-not-kv", "suppression-reason"}


def test_yaml_comment_suppresses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - image: vllm/vllm-openai:v0.30.0\n    args:\n"
        "    - --model=M\n    # warmset: ignore[weights-not-kv] small cards\n    - --cpu-offload-gb=4\n"
    )
    assert _json(capsys, str(path))[0] == 0


def test_sarif(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "-o", "sarif", "start.sh"]) == 1
    sarif = json.loads(capsys.readouterr().out)
    run = sarif["runs"][0]
    rules = [r["id"] for r in run["tool"]["driver"]["rules"]]
    assert sarif["version"] == "2.1.0"
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        region = result["locations"][0]["physicalLocation"]["region"]
        assert region["startLine"] >= 1
        assert region["endColumn"] > region["startColumn"]


def test_github(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "-o", "github", "start.sh"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("::warning file=start.sh,line=5,col=3,") for line in lines)
    assert all(line.startswith("::") for line in lines)


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--explain", "hash-seed"]) == 0
    assert "PYTHONHASHSEED" in capsys.readouterr().out
    assert main(["check", "--explain", "hash-sed"]) == 2
    assert "hash-seed" in capsys.readouterr().err


def test_stdin(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    import sys

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"vllm serve M --cpu-offload-gb 4\n")))
    code, result = _json(capsys, "-")
    assert code == 1
    assert result["findings"][0]["file"] == "<stdin>"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "nothing to check"),
        (["--"], "nothing stands behind"),
        (["no-such-file"], "no-such-file"),
        (["--", "ls", "-l"], "no server is started"),
        (["--engine", "tgi@1", "--", "vllm", "serve", "M"], "tgi"),
        (["--engine", "vllm@abc", "--", "vllm", "serve", "M"], "vllm@abc"),
        (["--host-ram", "lots", "--", "vllm", "serve", "M"], "lots"),
        (["--url", "ftp://x"], "ftp://x"),
        (["--url", "http://127.0.0.1:9"], "does not answer"),
    ],
)
def test_bad_usage(args: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *args]) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert "hint:" in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("big.yaml", b"a: 1\n" * 2_000_000, "larger than"),
        ("binary.sh", b"\x7fELF\0\0\0", "binary"),
        ("latin.sh", b"vllm serve \xe9\n", "UTF-8"),
        ("deep.yaml", b"[" * 5000, "nesting"),
        (
            "bomb.yaml",
            b"a: &a [x,x,x,x,x,x,x,x,x]\n"
            + b"".join(
                f"{c}: &{c} [*{p},*{p},*{p},*{p},*{p},*{p},*{p},*{p},*{p}]\n".encode()
                for p, c in zip("abcdefgh", "bcdefghi", strict=True)
            ),
            "grows beyond",
        ),
        ("self.yaml", b"a: &a [*a]\n", "itself"),
        ("broken.yaml", b"a: [1\nb: 2\n", "not valid YAML"),
        ("empty.sh", b"", "nothing to check"),
        ("arrays.sh", b"A=(" * 50_000, "nothing to check"),
        ("substitutions.sh", b'"$(' * 50_000, "nothing to check"),
        ("endless.env", b"".join(b"LMCACHE_X%d=1\n" % i for i in range(10_001)), "10,000 variables"),
    ],
)
def test_hostile_input(
    tmp_path: Path, name: str, data: bytes, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    assert main(["check", str(path)]) == 2
    assert says in capsys.readouterr().err


def test_links_to_themselves_and_pipes_never_hang(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "WRITER_SECONDS", 0.1)
    (tmp_path / "start.sh").write_text("vllm serve m --cpu-offload-gb 40\n")
    (tmp_path / "self.sh").symlink_to("self.sh")
    (tmp_path / "up").symlink_to(tmp_path, target_is_directory=True)
    os.mkfifo(tmp_path / "pipe.sh")
    assert main(["check", "-o", "json", str(tmp_path)]) == 1
    assert len(json.loads(capsys.readouterr().out)["findings"]) == 1
    assert main(["check", str(tmp_path / "pipe.sh")]) == 2
    assert "pipe" in capsys.readouterr().err


PAGE = b"""# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",engine="0",kv_offloading_size="40.0",num_gpu_blocks="1000"} 1.0
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="m"} 4.0e6
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 4.0e6
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 1.0e6
"""


@pytest.fixture
def server() -> Iterator[str]:
    """A server that answers /metrics and /v1/models."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = PAGE if self.path == "/metrics" else b'{"data":[{"id":"m","root":"Qwen/Qwen3-8B"}]}'
            self.send_response(200 if self.path in ("/metrics", "/v1/models") else 404)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def test_a_running_server_is_asked(server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "server.log"
    log.write_text("INFO 10-10 10:00:00 [gpu_worker.py:298] Available KV cache memory: 54.20 GiB\n")
    code, result = _json(capsys, "--url", server, "--log", str(log))
    assert code == 1
    found = {(f["rule"], f["severity"]) for f in result["findings"]}
    assert ("running-tier", "error") in found
    assert ("mirror-tier", "warning") in found
    assert result["findings"][-1]["file"].endswith("/metrics")


def test_hook_and_action_use_options_that_exist(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", "--help"])
    options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    hook = yaml.safe_load((root / ".pre-commit-hooks.yaml").read_text())[0]
    action = yaml.safe_load((root / "action.yml").read_text())
    script = action["runs"]["steps"][1]["run"]
    used = set(hook["args"]) | set(re.findall(r"(?<![\w-])--[a-z-]+", script))
    assert used <= options
    assert hook["entry"] == "warmset check"
    assert "${{" not in script, "inputs of an action must not be pasted into its script"


def test_files_that_are_no_input_are_passed_over_for_hooks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "chart.yaml").write_text("{{- if .x }}\na: 1\n{{- end }}\n")
    (tmp_path / "other.yaml").write_text("a: 1\n")
    paths = [str(tmp_path / "chart.yaml"), str(tmp_path / "other.yaml")]
    assert main(["check", *paths]) == 2
    assert main(["check", "--skip-others", *paths]) == 0


def test_the_gravest_finding_leads(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("vllm", "serve", "M", "--cpu-offload-gb", "4", "--kv-offloading-size", "40", "--swap-space", "4")
    assert main(["check", "--engine", "vllm@0.32", "--", *words]) == 1
    said = capsys.readouterr()
    severities = re.findall(r"^  (error|warning|note)\[", said.out, re.MULTILINE)
    assert severities == sorted(severities, key=["error", "warning", "note"].index)
    assert {"error", "note"} < set(severities)
    assert said.err.startswith(
        "error: `--fail-on error` is reached: `swap-space-not-kv` at <command>:1\n\nhint: "
    )


def test_fix_says_when_there_is_nothing_to_correct(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--fix", "--", "vllm", "serve", "M", "--kv-offloading-size", "40"]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "no finding has a certain correction" in said.err


@pytest.mark.parametrize("option", ["--engine", "--lmcache"])
def test_an_empty_version_is_not_taken_for_none(capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert main(["check", option, "", "--", "vllm", "serve", "M"]) == 2
    assert capsys.readouterr().out == ""


TOO_LONG = (
    "ValueError: To serve at least one request with the models's max seq len (32768), (4.50 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (3.58 GiB). Based on the available memory, the estimated "
    "maximum model length is 26032.\n"
)
NO_ROOM = "OSError: [Errno 14] Bad address in shared_offload_region.py madvise\n"


@pytest.mark.parametrize(
    "words",
    [("a.log", "b.log"), (".",), ("--log", "a.log", "."), ("--log", "a.log", "--log", "b.log", "start.sh")],
)
def test_every_log_of_several_is_read(
    capsys: pytest.CaptureFixture[str], script: Path, words: tuple[str, ...]
) -> None:
    (script.parent / "a.log").write_text(TOO_LONG)
    (script.parent / "b.log").write_text(NO_ROOM)
    code, result = _json(capsys, *words)
    assert code == 1
    found = {(f["rule"], f["file"]) for f in result["findings"]}
    assert {("ctx-exceeds-gpu-kv", "a.log"), ("shm-too-small", "b.log")} <= {
        (rule, Path(file).name) for rule, file in found
    }


def test_a_file_that_is_named_twice_is_read_once(capsys: pytest.CaptureFixture[str], script: Path) -> None:
    (script.parent / "a.log").write_text(TOO_LONG)
    _, result = _json(capsys, "--log", "a.log", "a.log", ".", "start.sh", str(script))
    assert sorted(Path(f["file"]).name for f in result["files"]) == ["a.log", "start.sh"]
    assert [f["rule"] for f in result["findings"]].count("ctx-exceeds-gpu-kv") == 1
