"""`warmset curve` from the outside."""

import csv
import io
import json
from pathlib import Path

import pytest


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "trace.jsonl"
    rows = []
    for turn in range(1, 9):
        for session in range(6):
            ids = [0, 1, *(100 * (session + 1) + i for i in range(3 * turn))]
            rows.append(
                {
                    "timestamp": 1000 * len(rows),
                    "input_length": 16 * len(ids) - 5,
                    "output_length": 20,
                    "hash_ids": ids,
                }
            )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"mooncake:{path}"


def curve(warmset, *arguments):  # type: ignore[no-untyped-def]
    ran = warmset("curve", *arguments, "-o", "json", "--quiet")
    assert ran.code == 0, ran.err
    return ran.valid("curve")


def test_keys_and_sums(warmset, trace: str) -> None:  # type: ignore[no-untyped-def]
    found = curve(warmset, trace, "--block-tokens", 16, "--capacities", "30,60,1000")
    assert [p["capacity_blocks"] for p in found["points"]] == [30, 60, 1000]
    for point in found["points"]:
        assert point["hit_ratio"] == point["hit_tokens"] / found["total_tokens"]
        assert point["hit_ratio_of_prompt"] == point["hit_tokens"] / found["prompt_tokens"]
        assert point["denominator"] == "block_tokens"
        assert point["capacity_bytes"] is None
    assert found["points"][-1]["hit_ratio"] == found["ceiling"]["hit_ratio"]
    assert found["smallest_capacity_blocks"] <= found["ceiling"]["capacity_blocks"]


def test_capacities_as_people_write_them(warmset, trace: str) -> None:  # type: ignore[no-untyped-def]
    found = curve(warmset, trace, "--block-tokens", 16, "--capacities", "1e2, 1_000,2k,50%")
    expected = {100, 1000, 2000, found["unique_blocks"] // 2}
    assert [p["capacity_blocks"] for p in found["points"]] == sorted(expected)


@pytest.mark.parametrize("how", [(), ("--sample", 1), ("--sample", 1, "--workers", 1)])
def test_what_was_skipped_is_counted(warmset, tmp_path: Path, how: tuple[object, ...]) -> None:  # type: ignore[no-untyped-def]
    row = {"timestamp": 1, "input_length": 64, "output_length": 1, "hash_ids": [1, 2, 3, 4]}
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join([json.dumps(row)] * 20 + ["{broken"]) + "\n")
    ran = warmset("curve", f"mooncake:{path}", "--block-tokens", 16, "--skip-bad", *how, "-o", "json")
    assert ran.code == 0, ran.err
    assert ran.json()["skipped_requests"] == 1
    assert [count["requests"] for count in ran.json()["skipped"].values()] == [1]
    assert "skipped 1: not valid JSON" in ran.err


def test_long_reading_says_how_far_it_is(warmset, trace: str, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("warmset.cli.progress._BAR_AFTER_SECONDS", 0)
    monkeypatch.setattr("warmset.cli.progress._LINE_EVERY_SECONDS", 0)
    assert "reading: 100% …" in warmset("curve", trace, "--block-tokens", 16).err
    assert "reading" not in warmset("curve", trace, "--block-tokens", 16, "--quiet").err


def test_bytes_with_a_model(warmset, trace: str) -> None:  # type: ignore[no-untyped-def]
    found = curve(
        warmset, trace, "--block-tokens", 16, "--model", "llama-3.1-8b", "--capacities", "100,1GiB",
        "--device", "128MiB", "--prefill-tps", 10000, "--load-gbps", 20,
    )  # fmt: skip
    # 131,072 bytes per token, 16 tokens per block.
    assert found["bytes_per_block"] == 16 * 131_072
    assert [(p["capacity_blocks"], p["capacity_bytes"]) for p in found["points"]] == [
        (100, 100 * 2**21), (512, 2**30),
    ]  # fmt: skip
    assert found["device_capacity_blocks"] == 64
    for point in found["points"]:
        assert point["device_hit_tokens"] + point["host_hit_tokens"] == point["hit_tokens"]
        assert point["ttft_mean_seconds"] > 0
    alone = curve(warmset, trace, "--block-tokens", 16, "--prefill-tps", 10000)
    said = ["cost no loading" in " ".join(f["notes"]) for f in (found, alone)]
    assert said == [False, True]
    fp8 = curve(warmset, trace, "--block-tokens", 16, "--model", "llama-3.1-8b", "--kv-dtype", "fp8")
    assert fp8["bytes_per_block"] == 8 * 131_072


def test_options_reach_the_curve(warmset, trace: str) -> None:  # type: ignore[no-untyped-def]
    base = (trace, "--block-tokens", 16, "--capacities", "40")
    plain = curve(warmset, *base)
    assert curve(warmset, *base, "--warmup", 0.5)["total_tokens"] < plain["total_tokens"]
    blocks = curve(warmset, *base, "--weight", "blocks", "--order", "head-first")
    assert blocks["total_tokens"] == blocks["block_accesses"]
    assert blocks["denominator"] == "block_accesses"
    for policy in ("fifo", "lfu", "arc", "optimal"):
        found = curve(warmset, *base, "--policy", policy)
        assert found["policy"] == policy
        # What touching does not change has no order of touching.
        assert found["order"] == (None if policy in ("fifo", "optimal") else "tail-first")
        assert any("`order` is null" in note for note in found["notes"]) is (found["order"] is None)
    assert curve(warmset, *base, "--sample", 1)["points"] == plain["points"]
    sampled = curve(warmset, *base, "--sample", "0.2", "--seed", 3)
    assert sampled["sample"]["error_bound_ratio"] >= 0
    assert curve(warmset, *base, "--sample", "0.2", "--seed", 3) == sampled
    assert curve(warmset, *base, "--concurrency", 4)["concurrency"] == 4


def test_chunks_are_counted_in_blocks_and_over_all_blocks(warmset, trace: str) -> None:  # type: ignore[no-untyped-def]
    base = (trace, "--block-tokens", 16, "--capacities", "39,40,160")
    whole = curve(warmset, *base)
    chunked = curve(warmset, *base, "--chunk-tokens", 64)
    assert (chunked["chunk_tokens"], chunked["block_tokens"]) == (64, 16)
    assert chunked["total_tokens"] == whole["total_tokens"]
    assert chunked["ceiling"]["hit_ratio"] < whole["ceiling"]["hit_ratio"]
    assert all(p["hit_tokens"] % 64 == 0 for p in chunked["points"])
    one = curve(warmset, *base, "--chunk-tokens", 16)
    # Blocks that are not full are not stored.
    assert chunked["ceiling"]["hit_tokens"] < one["ceiling"]["hit_tokens"] < whole["ceiling"]["hit_tokens"]
    by_blocks = curve(warmset, *base, "--chunk-tokens", 64, "--weight", "blocks")
    assert by_blocks["total_tokens"] == whole["block_accesses"]
    assert [p["hit_tokens"] * 16 for p in by_blocks["points"]] == [p["hit_tokens"] for p in chunked["points"]]
    # The device pool holds blocks, whatever the tier below stores.
    above = curve(warmset, *base, "--chunk-tokens", 64, "--device-capacity", 40)
    assert above["points"][0]["device_hit_tokens"] == whole["points"][1]["hit_tokens"]
    assert curve(warmset, *base, "--chunk-tokens", 64, "--policy", "lfu")["points"][2]["hit_tokens"] > 0
    small = curve(
        warmset, trace, "--block-tokens", 16, "--capacities", 3, "--chunk-tokens", 64, "--policy", "arc"
    )
    assert small["points"][0]["hit_tokens"] == 0


def test_what_stands_above_the_table_is_about_what_was_asked(warmset, trace: str) -> None:  # type: ignore[no-untyped-def]
    base = (trace, "--block-tokens", 16)
    plain = curve(warmset, *base)
    need = plain["smallest_capacity_blocks"]
    # An exclusive tier holds what the device does not; an inclusive one holds all of it.
    exclusive = curve(warmset, *base, "--device-capacity", 30, "--tier", "exclusive")
    assert exclusive["smallest_capacity_blocks"] == need - 30
    assert exclusive["ceiling"]["capacity_blocks"] == plain["ceiling"]["capacity_blocks"] - 30
    line = {p["capacity_blocks"]: p["hit_ratio"] for p in exclusive["lru_curve"]}
    assert all(line[p["capacity_blocks"]] == p["hit_ratio"] for p in exclusive["points"])
    inclusive = curve(warmset, *base, "--device-capacity", 30)
    assert inclusive["smallest_capacity_blocks"] == need
    assert (
        f"a tier of {need - 30} blocks"
        in warmset("curve", *base, "--device-capacity", 30, "--tier", "exclusive").out
    )
    for tier in ("inclusive", "exclusive"):
        enough = curve(warmset, *base, "--device-capacity", 1000, "--tier", tier)
        assert enough["smallest_capacity_blocks"] == enough["knee"]["capacity_blocks"] == 0
        assert enough["knee"]["hit_tokens"] == plain["ceiling"]["hit_tokens"]
    alone = warmset("curve", *base, "--device-capacity", 1000).out
    assert "the device pool alone serves" in alone
    # Pinned blocks are missing from the pool: it may not be enough by itself.
    pinned = curve(warmset, *base, "--device-capacity", need, "--concurrency", 6)
    assert pinned["smallest_capacity_blocks"] > 0
    fifo = warmset("curve", *base, "--policy", "fifo", "--capacities", 20)
    assert "under FIFO" in fifo.out.splitlines()[0]
    assert fifo.out.startswith("20 blocks")
    assert "knee, LRU" in fifo.out
    # A request larger than the tier: vLLM stores nothing of it, an LRU keeps its head.
    longest = [
        any("26 blocks, the longest request" in note for note in curve(warmset, *base, *more)["notes"])
        for more in (("--capacities", 25), ("--capacities", 26), ("--capacities", 25, "--policy", "arc"))
    ]
    assert longest == [True, False, False]


def test_every_form(warmset, trace: str) -> None:  # type: ignore[no-untyped-def]
    for form in ("table", "md", "yaml", "csv"):
        ran = warmset("curve", trace, "--block-tokens", 16, "-o", form)
        assert ran.code == 0
        assert ran.out
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    assert rows == [
        {k: "" if v is None else str(v) for k, v in p.items()}
        for p in curve(warmset, trace, "--block-tokens", 16)["points"]
    ]


def test_html_holds_the_json_and_asks_for_nothing(warmset, trace: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "report.html"
    found = curve(warmset, trace, "--block-tokens", 16, "--html", path)
    text = path.read_text()
    inside = text.split('id="warmset-data">')[1].split("</script>")[0]
    assert json.loads(inside) == found
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--capacities", "0"], "`0`"),
        (["--capacities", "-5"], "`-5`"),
        (["--capacities", "1.5"], "1.5"),
        (["--capacities", "9" * 400], "absurdly"),
        (["--capacities", "1," * 20_000 + "1"], "20,001"),
        (["--capacities", "10,,20"], "--capacities"),
        (["--capacities", ""], "--capacities"),
        (["--capacities", "10GiB"], "--model"),
        (["--capacities", "101%"], "`101%`"),
        (["--capacities", "0%"], "`0`"),
        (["--capacities", "5%", "--sample", "0.5"], "`5%`"),
        (["--capacities", "1B", "--model", "llama-3.1-8b"], "holds no block"),
        (["--model", "no-such-model"], "`no-such-model`"),
        (["--warmup", "1"], "warm-up"),
        (["--warmup", "-1"], "`-1`"),
        (["--sample", "0"], "sample"),
        (["--sample", "0.1", "--policy", "arc"], "--sample"),
        (["--policy", "lru2"], "lru2"),
        (["--policy", "arc", "--order", "head-first"], "`arc`"),
        (["--policy", "fifo", "--order", "tail-first"], "`fifo`"),
        (["--sample", "0.5", "--chunk-tokens", "64"], "--chunk-tokens"),
        (["--sample", "0.5", "--concurrency", "4"], "--concurrency"),
        (["--sample", "0.5", "--workers", "2", "--sort"], "--sort"),
        (["--chunk-tokens", "64", "--concurrency", "4"], "--device-capacity"),
        (["--within", "-1"], "`-1`"),
        (["--within", "nan"], "`nan`"),
        (["--device-capacity", "0"], "`0`"),
        (["--device", "40"], "--model"),
        (["--device", "0", "--model", "llama-3.1-8b"], "`0`"),
        (["--concurrency", "0"], "`0`"),
        (["--chunk-tokens", "100"], "`100`"),
        (["--load-gbps", "10"], "--prefill-tps"),
        (["--prefill-tps", "0"], "prefill speed"),
        (["--prefill-tps", "nan"], "prefill speed"),
        (["--seed", "-1", "--sample", "0.5"], "`-1`"),
        (["--html", "/no/such/folder/x.html"], "/no/such/folder"),
        (["--block-tokens", "0"], "`0`"),
    ],
)
def test_bad_input_is_named_and_stops(warmset, trace: str, arguments: list[str], named: str) -> None:  # type: ignore[no-untyped-def]
    ran = warmset(
        "curve", trace, *(["--block-tokens", "16"] if "--block-tokens" not in arguments else []), *arguments
    )
    assert ran.code == 2, ran.err
    assert named in ran.err
    assert ran.out == ""


def test_no_reuse_is_said(warmset, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "once.jsonl"
    path.write_text('{"timestamp": 0, "input_length": 20, "output_length": 1, "hash_ids": [1, 2]}\n')
    found = curve(warmset, f"mooncake:{path}", "--block-tokens", 16)
    assert found["ceiling"]["hit_ratio"] == 0
    assert found["total_tokens"] == 20
    assert "no block is read a second time" in warmset("curve", f"mooncake:{path}", "--block-tokens", 16).out
    ran = warmset("curve", f"mooncake:{path}", "--block-tokens", 16, "--chunk-tokens", 32)
    assert ran.code == 2
    assert "`32`" in ran.err


def test_no_trace_no_answer(warmset, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    for sample in ([], ["--sample", "0.5"]):
        ran = warmset("curve", f"mooncake:{empty}", *sample)
        assert ran.code == 2
        assert ran.out == ""
    assert warmset("curve", tmp_path / "missing.jsonl").code == 2


def test_many_files_are_one_sampled_trace(warmset, trace: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    folder = tmp_path / "shards"
    folder.mkdir()
    lines = Path(trace.removeprefix("mooncake:")).read_text().splitlines(keepends=True)
    (folder / "1.jsonl").write_text("".join(lines[:20]))
    (folder / "2.jsonl").write_text("".join(lines[20:]))
    one = curve(warmset, trace, "--block-tokens", 16, "--sample", 0.5)
    for many in (
        [f"mooncake:{folder}"],
        [f"mooncake:{folder}/*.jsonl"],
        [f"mooncake:{folder}", "--workers", 2],
    ):
        found = curve(warmset, *many, "--block-tokens", 16, "--sample", 0.5)
        assert {**found, "source": None} == {**one, "source": None}
    refused = warmset("curve", f"mooncake:{folder}")
    assert refused.code == 2
    assert "--sample" in refused.err
