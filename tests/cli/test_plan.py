"""`warmset plan` as an operator and a script meet it."""

import gzip
import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from warmset.units import GIB

WORKED = ("plan", "--layers", 32, "--kv-heads", 8, "--head-dim", 128, "--kv-dtype", "fp16", "--context", 8192)
DEMO = (
    "plan",
    "llama-3.1-8b",
    "--gpu",
    "h100-80gb",
    "--sessions",
    200,
    "--context",
    8192,
    "--host-ram",
    "512GiB",
)


@pytest.fixture
def valid(warmset: Callable[..., Any]) -> Callable[..., Any]:
    """Run with `-o json`, hold the payload against its schema, and return it."""

    def run(*arguments: object) -> Any:
        ran = warmset(*arguments, "-o", "json")
        assert ran.code == 0, ran.err
        return ran.valid("plan")

    return run


def test_the_worked_example(valid: Callable[..., Any]) -> None:
    p = valid(*WORKED, "--sessions", 200, "--hbm-kv", "28GiB")
    assert p["schema"] == "warmset.plan/1"
    assert p["demand"]["warm_set_bytes"] == 200 * GIB
    assert p["device"]["kv_budget_bytes"] == 28 * GIB
    assert p["tier"]["exclusive_bytes"] == pytest.approx(197.8 * GIB)
    assert p["tier"]["inclusive_bytes"] == p["tier"]["recommended_bytes"] == 230 * GIB
    assert p["tier"]["inclusion"] == "inclusive"
    assert p["decision"]["verdict"] == "offload"
    assert p["decision"]["reasons"]
    assert p["model"] is None
    assert "MODEL" in p["launch"]["command"]
    assert f'"cpu_bytes_to_use":{230 * GIB}' in p["launch"]["command"]
    assert any("MODEL" in note for note in p["notes"])


def test_leave_it_off(valid: Callable[..., Any]) -> None:
    p = valid(*WORKED, "--sessions", 20, "--hbm-kv", 28)
    assert p["decision"]["verdict"] == "leave_off"
    assert p["tier"]["recommended_bytes"] == 0
    assert p["launch"]["command"] is None
    assert any("launch.command" in note for note in p["notes"])
    assert p["next_steps"] == []


@pytest.mark.parametrize(("engine", "port"), [("vllm@0.32", 8000), ("sglang@0.5.23", 30000)])
def test_an_answer_ends_with_the_next_command(
    valid: Callable[..., Any], warmset: Callable[..., Any], engine: str, port: int
) -> None:
    asked = (*WORKED, "--sessions", 200, "--hbm-kv", 28, "--engine", engine)
    command = f"warmset measure http://localhost:{port} --for 5m"
    assert [s["command"] for s in valid(*asked)["next_steps"]] == [f"{command} --save before.json", command]
    assert warmset(*asked).out.splitlines()[-1].startswith(f"  {command}  # ")


def test_the_demo_is_an_answer_for_a_person(warmset: Callable[..., Any]) -> None:
    ran = warmset(*DEMO, "--engine", "vllm@0.32", "--backend", "native")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0] == "Offload: a host tier of 230.0 GiB keeps 200 sessions of 8,192 tokens warm."
    order = [ran.out.index(title) for title in ("Why", "Sizes", "Type this", "Assumed", "Notes", "\nNext\n")]
    assert order == sorted(order)
    assert "vllm serve meta-llama/Llama-3.1-8B" in ran.out
    assert f'"cpu_bytes_to_use":{230 * GIB}' in ran.out
    assert ran.err == ""


def test_an_estimate_is_a_band(valid: Callable[..., Any]) -> None:
    band = valid(*DEMO)["device"]["kv_budget_bytes"]
    assert band["low"] < band["best"] < band["high"]


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        (("--sessions", 200, "--hbm-kv", 28, "--host-ram", "64GiB"), "add_lower_tier"),
        (("--sessions", 200, "--hbm-kv", "512MiB"), "does_not_fit"),
        (("--sessions", 200, "--hbm-kv", 28, "--prefill-tps", 50_000, "--load-gbps", 2), "recompute"),
        (("--sessions", 200, "--hbm-kv", 28, "--backend", "lmcache"), "offload"),
        (("--sessions", 200, "--hbm-kv", 28, "--engine", "sglang"), "offload"),
        (("--sessions", 200, "--hbm-kv", 28, "--engine", "vllm@0.13"), "offload"),
        (("--sessions", 200, "--hbm-kv", 28, "--host-ram", 64, "--object", "100gbe"), "add_lower_tier"),
        (("--sessions", 200, "--hbm-kv", 28, "--host-ram", 64, "--engine", "vllm@0.20"), "offload"),
        (("--sessions", 200, "--kv-cache-tokens", 229_376, "--ram-price", 4, "--replicas", 3), "offload"),
        (("--sessions", 200, "--gpus", 8, "--pp", 2, "--hbm-kv", 28), "offload"),
    ],
)
def test_every_verdict_validates(valid: Callable[..., Any], more: tuple[object, ...], verdict: str) -> None:
    p = valid(*WORKED, *more)
    assert p["decision"]["verdict"] == verdict


def test_turns_grow_into_a_context(valid: Callable[..., Any]) -> None:
    base = ("plan", "llama-3.1-8b", "--hbm-kv", 28, "--sessions", 100)
    p = valid(*base, "--turns", 20, "--tokens-per-turn", 400, "--shared-prefix", "2k")
    assert p["demand"]["context_tokens"] == 10_000
    assert p["demand"]["warm_set_tokens"] == 100 * 8_000 + 2_000


def test_metrics_and_log_files(valid: Callable[..., Any], shared: Path, tmp_path: Path) -> None:
    p = valid(
        "plan",
        "llama-3.2-1b",
        "--metrics",
        shared / "metrics" / "chat_on.end.prom",
        "--sessions",
        9,
        "--context",
        4096,
    )
    assert p["device"]["source"] == "metrics"
    log = tmp_path / "server.log"
    log.write_text("INFO Available KV cache memory: 28.00 GiB\n")
    p = valid(*WORKED, "--sessions", 200, "--log", log)
    assert p["device"]["kv_budget_bytes"] == 28 * GIB


@pytest.mark.parametrize("form", ["table", "json", "yaml", "md"])
def test_every_form(warmset: Callable[..., Any], form: str) -> None:
    ran = warmset(*WORKED, "--sessions", 200, "--hbm-kv", 28, "-o", form)
    assert ran.code == 0
    assert "230" in ran.out


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (("plan", "--sessions", 1, "--context", 8), "no model is given", "llama-3.1-8b"),
        (
            ("plan", "lama-3.1-8b", "--sessions", 1, "--context", 8, "--hbm-kv", 1),
            "`lama-3.1-8b`",
            "`llama-3.1-8b`",
        ),
        (
            ("plan", "llama-3.1-8b", "--sessions", 1, "--context", 8, "--gpu", "h100-80"),
            "`h100-80`",
            "`h100-80gb`",
        ),
        (("plan", "llama-3.1-8b", "--sessions", 1, "--context", "200k", "--hbm-kv", 1), "200,000", "shorter"),
        (("plan", "llama-3.1-8b", "--sessions", 1, "--context", 8, "--hbm-kv", -1), "negative", "28GiB"),
        (("plan", "llama-3.1-8b", "--sessions", 1, "--context", 8, "--hbm-kv", "9EiB"), "EiB", "TiB"),
        (("plan", "llama-3.1-8b", "--sessions", -3, "--context", 8, "--hbm-kv", 1), "`-3`", "1"),
        (("plan", "llama-3.1-8b", "--sessions", 1, "--hbm-kv", 1), "context", "--context"),
        (("plan", "llama-3.1-8b", "--sessions", 1, "--context", 8), "budget is not known", "--metrics"),
        (("plan", "llama-3.1-8b", "--layers", 3, "--sessions", 1, "--context", 8), "`--layers`", "numbers"),
        (("plan", "--layers", 3, "--sessions", 1, "--context", 8), "`--kv-heads`", "together"),
        ((*WORKED, "--sessions", 1, "--hbm-kv", 1, "--tp", 3), "`--tp 3`", "8"),
        ((*WORKED, "--sessions", 1, "--hbm-kv", 1, "--gpus", 8, "--tp", 4), "`--gpus 8`", "drop"),
        ((*WORKED, "--sessions", 1, "--hbm-kv", 1, "--disk", "100gbe"), "`100gbe`", "nvme"),
        ((*WORKED, "--sessions", 1, "--hbm-kv", 1, "--lmcache", "x"), "`lmcache@x`", "0.5"),
        (
            (*WORKED, "--sessions", 1, "--hbm-kv", 1, "--engine", "vllm@0.9"),
            "no native KV offloading",
            "0.14",
        ),
        ((*WORKED, "--sessions", 1, "--metrics", "/no/such/file"), "/no/such/file", "file"),
        ((*WORKED, "--sessions", 1, "--metrics", "http://127.0.0.1:9"), "127.0.0.1:9", "address"),
        (("plan", "llama-3.1-8b", "--context", 8, "--hbm-kv", 1), "--sessions", "--trace"),
    ],
)
def test_errors_name_the_value_and_the_fix(
    warmset: Callable[..., Any], arguments: tuple[object, ...], message: str, hint: str
) -> None:
    ran = warmset(*arguments)
    assert ran.code == 2
    assert ran.out == ""
    first, _, last = ran.err.partition("\n\n")
    assert first.startswith("error: ")
    assert message in first
    assert last.startswith("hint: ")
    assert hint in last


def test_from_python() -> None:
    import warmset

    p = warmset.plan(
        layers=32,
        kv_heads=8,
        head_dim=128,
        kv_dtype="fp16",
        sessions=200,
        context_tokens=8192,
        hbm_kv="28GiB",
    )
    assert p.tier.recommended_bytes == 230 * GIB
    launch = warmset.launch_for(p)
    assert launch is not None
    assert "MODEL" in launch.command
    assert warmset.footprint("llama-3.1-8b").bytes_per_token == 131_072
    with pytest.raises(AttributeError):
        _ = warmset.nothing_here  # type: ignore[attr-defined]


def _examples() -> list[str]:
    root = Path(__file__).resolve().parents[2]
    pages = (root / "docs" / "how-to" / "plan-a-tier.md", root / "docs" / "reference" / "plan.md")
    lines = (line for page in pages for line in page.read_text().splitlines())
    return [line for line in lines if line.startswith("warmset plan ")]


@pytest.mark.parametrize("line", _examples())
def test_examples_in_the_docs_run(warmset: Callable[..., Any], line: str) -> None:
    assert warmset(*line.split()[1:]).code == 0


def test_launch_from_python() -> None:
    import warmset

    assert (
        "--kv-offloading-size 230"
        in warmset.launch("llama-3.1-8b", tier="230GiB", engine="vllm@0.16").command
    )


def test_the_command_serves_the_folder_of_a_configuration(valid: Callable[..., Any], tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "hidden_size": 4096,
        "max_position_embeddings": 8192,
        "torch_dtype": "bfloat16",
    }
    (folder / "config.json").write_text(json.dumps(config))
    (tmp_path / "other.json").write_text(json.dumps(config))
    asked = ("--sessions", 200, "--context", 8192, "--hbm-kv", 28)
    for model in (folder, folder / "config.json"):
        assert f"vllm serve {folder} " in valid("plan", model, *asked)["launch"]["command"]
    assert "vllm serve MODEL " in valid("plan", tmp_path / "other.json", *asked)["launch"]["command"]


def test_what_is_not_known_is_null_with_a_reason(valid: Callable[..., Any]) -> None:
    payload = valid(*WORKED, "--sessions", 200, "--hbm-kv", 28)
    notes = " ".join(payload["notes"])
    for key in ("lower_tier", "cost", "traffic"):
        assert payload[key] is None
        assert f"{key} is null" in notes
    for room in ("deployment", "host"):
        for key, value in payload[room].items():
            assert value is not None or f"{room}.{key} is null" in notes


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--metrics", 'sglang:max_total_num_tokens{model_name="m",tp_rank="0"} 400000.0\n'),
        ("--log", "[2026-01-01 10:00:00 TP0] max_total_num_tokens=400000, chunked_prefill_size=8192\n"),
    ],
)
def test_words_of_sglang_are_answered_for_sglang(
    warmset: Callable[..., Any], valid: Callable[..., Any], tmp_path: Path, option: str, words: str
) -> None:
    source = tmp_path / "words"
    source.write_text(words)
    asked = (*WORKED, "--sessions", 200, option, source)
    payload = valid(*asked)
    assert payload["engine"].startswith("sglang@")
    assert payload["backend"] == "hicache"
    assert payload["device"]["tokens"] in range(399_900, 400_001)
    for contradiction in (("--engine", "vllm@0.32"), ("--backend", "native")):
        assert warmset(*asked, *contradiction).code == 2


def test_a_password_in_an_address_is_never_shown(warmset: Callable[..., Any]) -> None:
    ran = warmset(*WORKED, "--sessions", 200, "--metrics", "http://user:sekret@127.0.0.1:1/")
    assert ran.code == 2
    assert "127.0.0.1:1/metrics" in ran.err
    assert "sekret" not in ran.err + ran.out


def _row(out: str, name: str) -> list[str]:
    line = next(line for line in out.splitlines() if line.strip().startswith(name))
    return re.split(r"\s{2,}", line.strip())


@pytest.mark.parametrize(
    ("engine", "fitting", "headline"),
    [
        (
            "vllm@0.32",
            "19",
            "19 of 20 sessions of 8,192 tokens fit the device, and the last all but one block.",
        ),
        ("sglang@0.5.23", "20", "20 sessions of 8,192 tokens fit the device."),
    ],
)
def test_headline_reasons_and_table_tell_one_story_at_the_edge(
    warmset: Callable[..., Any], valid: Callable[..., Any], engine: str, fitting: str, headline: str
) -> None:
    asked = (*WORKED, "--sessions", 20, "--hbm-kv", "20GiB", "--engine", engine)
    out = warmset(*asked).out
    assert out.splitlines()[0] == f"Leave offload off: {headline}"
    assert _row(out, "device pool")[:3] == ["device pool", "20.0 GiB", fitting]
    assert ("keeps one block of 2.00 MiB to itself" in out) is engine.startswith("vllm")
    device = valid(*asked)["device"]
    assert device["sessions"] == int(fitting)
    assert device["usable_bytes"] + device["reserved_bytes"] == 20 * GIB
    assert device["usable_bytes"] // (2**20 * 1024) == int(fitting)


def test_one_session_is_singular(warmset: Callable[..., Any]) -> None:
    for sessions, budget, headline in (
        (1, 2, "Leave offload off: 1 session of 8,192 tokens fits the device."),
        (2, 3, "Leave offload off: 2 sessions of 8,192 tokens fit the device."),
    ):
        out = warmset(*WORKED, "--sessions", sessions, "--hbm-kv", budget).out
        assert out.splitlines()[0] == headline
        assert re.search(r"\b1 (sessions|tokens|blocks|ranks|prompts)\b", out) is None


@pytest.mark.parametrize(
    "model", ["gemma-3-27b", "gpt-oss-20b", "llama-4-scout", "mistral-7b-v0.1", "qwen3.5-27b"]
)
@pytest.mark.parametrize("context", [1000, 8192, 30_000])
@pytest.mark.parametrize("sessions", [7, 100])
def test_what_reads_as_one_quantity_is_one(
    warmset: Callable[..., Any], model: str, context: int, sessions: int
) -> None:
    """The reason and the table: the same size for the same name, in GiB."""
    out = warmset("plan", model, "--sessions", sessions, "--context", context, "--hbm-kv", 8).out
    said = re.search(r"the warm set takes ([0-9.,]+ \S+)( in whole blocks)?", out)
    assert said is not None
    name = "warm set, in whole blocks" if said[2] else "warm set"
    if " MiB" not in said[1]:
        assert _row(out, name)[1] == said[1]
    inclusive = _row(out, "tier, inclusive rule")
    named = inclusive[-1].split(" × ")[0]
    # One decimal in the table, one more or less in the product.
    size = float(_row(out, named)[1].split()[0].replace(",", ""))
    assert float(inclusive[1].split()[0].replace(",", "")) == pytest.approx(size * 1.15, abs=0.11)


def test_a_plan_in_mebibytes_has_no_column_of_zeros(warmset: Callable[..., Any]) -> None:
    out = warmset(
        "plan",
        "--layers",
        2,
        "--kv-heads",
        1,
        "--head-dim",
        64,
        "--sessions",
        3,
        "--context",
        8192,
        "--hbm-kv",
        "8MiB",
    ).out
    assert _row(out, "warm set")[1] == "12.0 MiB"
    assert _row(out, "tier, recommended")[1] == "13.8 MiB"
    assert " 0.0 " not in out.split("Sizes")[1].split("Type this")[0].replace("15.0", "")


@pytest.mark.parametrize("option", ["--hbm-kv", "--host-ram", "--container-limit", "--shm"])
def test_a_bare_number_of_bytes_is_refused(warmset: Callable[..., Any], option: str) -> None:
    budget = () if option == "--hbm-kv" else ("--hbm-kv", 28)
    ran = warmset(*WORKED, "--sessions", 1, *budget, option, 1073741824)
    assert (ran.code, ran.out) == (2, "")
    assert f"`{option}` `1073741824` has no unit" in ran.err
    assert "`1073741824B`" in ran.err.split("hint: ")[1]
    assert warmset(*WORKED, "--sessions", 1, *budget, option, "1073741824B").code == 0


_PAGE = b'vllm:cache_config_info{engine="0",block_size="16",num_gpu_blocks="14336",cache_dtype="auto"} 1.0\n'
_LOG = b"INFO Available KV cache memory: 28.00 GiB\n"


@pytest.mark.parametrize(
    "content",
    [_PAGE, gzip.compress(_PAGE), _PAGE.decode().encode("utf-16"), b"\xef\xbb\xbf" + _PAGE],
    ids=["plain", "gzip", "utf-16", "with a mark"],
)
@pytest.mark.parametrize("place", ["file", "stdin"])
def test_pages_are_read_as_measure_reads_them(
    valid: Callable[..., Any],
    warmset: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
    place: str,
) -> None:
    file = tmp_path / "page.prom"
    file.write_bytes(content)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    device = valid(*WORKED, "--sessions", 20, "--metrics", file if place == "file" else "-")["device"]
    assert (device["source"], device["kv_budget_bytes"]) == ("metrics", 28 * GIB)
    assert "cannot be read" not in warmset("measure", file).err


def test_a_log_comes_from_standard_input(valid: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(_LOG)))
    device = valid(*WORKED, "--sessions", 20, "--log", "-")["device"]
    assert (device["source"], device["kv_budget_bytes"]) == ("log", 28 * GIB)


@pytest.mark.parametrize("option", ["--metrics", "--log"])
@pytest.mark.parametrize("content", [b"", b"\0\xff\0", b"nothing of use\n"])
def test_standard_input_without_words_is_refused(
    warmset: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, option: str, content: bytes
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    ran = warmset(*WORKED, "--sessions", 20, option, "-")
    assert (ran.code, ran.out) == (2, "")
    assert "\n\nhint: " in ran.err


def _damaged() -> bytes:
    damaged = bytearray(gzip.compress(_PAGE * 5000))
    damaged[30] ^= 0xFF
    damaged[31] ^= 0xFF
    return bytes(damaged)


@pytest.mark.parametrize(
    "words", [("measure",), (*WORKED, "--sessions", 20, "--metrics")], ids=lambda w: w[0]
)
@pytest.mark.parametrize("content", [gzip.compress(_PAGE)[:40], _damaged()], ids=["cut short", "changed"])
def test_damaged_pages_are_refused(
    warmset: Callable[..., Any], tmp_path: Path, words: tuple[object, ...], content: bytes
) -> None:
    file = tmp_path / "page.prom.gz"
    file.write_bytes(content)
    ran = warmset(*words, file)
    assert (ran.code, ran.out) == (2, "")
    assert "damaged gzip" in ran.err


def test_a_page_that_swells_is_refused(warmset: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "page.prom.gz"
    file.write_bytes(gzip.compress(b"# \n" * 25_000_000, compresslevel=1))
    assert file.stat().st_size < 2**20
    ran = warmset(*WORKED, "--sessions", 20, "--metrics", file)
    assert (ran.code, ran.out) == (2, "")
    assert "larger than 64 MiB" in ran.err


def test_one_server_is_asked_as_measure_asks_it(warmset: Callable[..., Any]) -> None:
    asked = (*WORKED, "--sessions", 20, "--metrics")
    for address in ("localhost:1", "127.0.0.1:1/metrics", "http://127.0.0.1:1"):
        ran = warmset(*asked, address)
        assert ran.code == 2
        assert ":1/metrics" in ran.err
    ran = warmset(*asked, "10.0.0.1:8000,10.0.0.2:8000")
    assert ran.code == 2
    assert "names 2 servers" in ran.err
    assert "one replica" in ran.err.split("hint: ")[1]
