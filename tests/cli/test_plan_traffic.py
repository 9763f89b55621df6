"""`warmset plan --trace`: sized by traffic, with the session rule beside it."""

import gzip
import json
import math
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from warmset.units import GIB

BLOCK_BYTES = 512 * 131072  # 512 tokens of llama-3.1-8b in bfloat16
CONVERSATION = "traces/mooncake/conversation_trace.jsonl.gz"


def _prefix_lru(path: Path, capacity: int) -> tuple[int, int]:
    """Hit tokens and all tokens of an LRU of `capacity` blocks, looked up by prefix: the plainest code there is."""
    held: OrderedDict[int, None] = OrderedDict()
    hits = total = 0
    with gzip.open(path, "rt") as lines:
        for line in lines:
            row = json.loads(line)
            ids, length = row["hash_ids"], row["input_length"]
            tokens = [min(512, max(0, length - 512 * i)) for i in range(len(ids))]
            total += sum(tokens)
            for block, size in zip(ids, tokens, strict=True):
                if block not in held:
                    break
                hits += size
            for block in reversed(ids):
                held[block] = None
                held.move_to_end(block)
            while len(held) > capacity:
                held.popitem(last=False)
    return hits, total


@pytest.fixture
def traffic(warmset: Callable[..., Any]) -> Callable[..., Any]:
    """Run with `-o json`, hold the payload against its schema, and return it."""

    def run(*arguments: object) -> Any:
        ran = warmset("plan", "llama-3.1-8b", *arguments, "-o", "json")
        assert ran.code == 0, ran.err
        return ran.valid("plan")

    return run


def _rows(path: Path, rows: list[list[int]], *, sessions: list[int] | None = None) -> Path:
    lines = [
        {"timestamp": 1000 * n, "input_length": 512 * len(ids), "output_length": 0, "hash_ids": ids}
        | ({} if sessions is None else {"session_id": f"s{sessions[n]}"})
        for n, ids in enumerate(rows)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_conversation_trace(traffic: Callable[..., Any], shared: Path) -> None:
    path = shared / CONVERSATION
    p = traffic("--hbm-kv", "28GiB", "--trace", f"mooncake:{path}", "--block-tokens", 512)
    found, total = p["traffic"], p["traffic"]["total_tokens"]
    assert found["bytes_per_block"] == BLOCK_BYTES
    # 28 GiB are 14,336 blocks of 16 tokens, of which the server keeps one: 447 whole blocks of 512.
    assert found["device"]["capacity_blocks"] == 447
    hits, tokens = _prefix_lru(path, 447)
    assert (found["device"]["hit_ratio"], total) == (pytest.approx(hits / tokens), tokens)
    assert found["ceiling"]["hit_ratio"] == pytest.approx(0.3736, abs=5e-5)
    # The smallest capacity within one point of the ceiling: one block less is not enough.
    blocks = found["tier"]["capacity_blocks"]
    enough = found["ceiling"]["hit_ratio"] - 0.01
    assert _prefix_lru(path, blocks)[0] / total >= enough > _prefix_lru(path, blocks - 1)[0] / total
    assert found["tier"]["capacity_bytes"] == blocks * BLOCK_BYTES == p["tier"]["recommended_bytes"]
    assert found["recommended"] == {"hit_ratio": found["tier"]["hit_ratio"]}
    assert p["decision"]["verdict"] == "offload"
    assert str(p["tier"]["recommended_bytes"]) in p["launch"]["command"]
    rule = found["session_rule"]
    assert rule["basis"] == "trace"
    assert rule["tier_bytes"] == p["tier"]["inclusive_bytes"]
    assert rule["hit_ratio"] < enough


def test_the_device_is_enough(traffic: Callable[..., Any], shared: Path) -> None:
    path = shared / "traces/tau/tau_airline_c8_bs16.jsonl.gz"
    p = traffic("--hbm-kv", "28GiB", "--trace", path)
    assert p["decision"]["verdict"] == "leave_off"
    assert p["tier"]["recommended_bytes"] == p["traffic"]["tier"]["capacity_bytes"] == 0
    assert p["traffic"]["device"]["hit_ratio"] == pytest.approx(0.9246, abs=5e-5)
    assert p["launch"]["command"] is None
    # Two GiB hold 1,023 blocks: the golden ratio at 1,000 is .6770.
    p = traffic("--hbm-kv", "2GiB", "--trace", path)
    assert p["decision"]["verdict"] == "offload"
    assert p["traffic"]["device"]["hit_ratio"] == pytest.approx(0.68, abs=0.02)


def test_no_reuse_needs_no_tier(traffic: Callable[..., Any], tmp_path: Path) -> None:
    path = _rows(tmp_path / "t.jsonl", [[3 * n, 3 * n + 1, 3 * n + 2] for n in range(50)])
    p = traffic("--hbm-kv", "1GiB", "--trace", f"mooncake:{path}", "--block-tokens", 512)
    assert p["decision"]["verdict"] == "leave_off"
    assert p["traffic"]["ceiling"]["hit_ratio"] == 0
    assert p["traffic"]["knee"]["capacity_bytes"] == 0


def test_the_session_rule_from_the_trace(traffic: Callable[..., Any], tmp_path: Path) -> None:
    # Sessions 0 and 1 are under way together, of 4 and 2 blocks; session 2 comes after both.
    rows = [[0, 1], [9, 10], [0, 1, 2, 3], [9, 10], [20]]
    path = _rows(tmp_path / "t.jsonl", rows, sessions=[0, 1, 0, 1, 2])
    p = traffic("--hbm-kv", "1GiB", "--trace", f"mooncake:{path}", "--block-tokens", 512)
    rule = p["traffic"]["session_rule"]
    assert (rule["sessions"], rule["context_tokens"], rule["basis"]) == (2, 1536, "trace")
    p = traffic(
        "--hbm-kv", "1GiB", "--trace", f"mooncake:{path}", "--block-tokens", 512, "--sessions", 7, "--context", "1Ki"
    )  # fmt: skip
    rule = p["traffic"]["session_rule"]
    assert (rule["sessions"], rule["context_tokens"], rule["basis"]) == (7, 1024, "options")
    assert rule["tier_bytes"] == math.ceil(7 * 1024 * 131072 * 1.15)


def test_part_of_it_fits_the_host(traffic: Callable[..., Any], shared: Path) -> None:
    p = traffic(
        "--hbm-kv", "28GiB", "--trace", shared / CONVERSATION, "--block-tokens", 512, "--container-limit", "512GiB",
        "--prefill-tps", 1e6,
    )  # fmt: skip
    # The disk loads slower than this prefill: host memory keeps what it can.
    assert p["decision"]["verdict"] == "offload"
    assert p["tier"]["recommended_bytes"] == 506 * GIB
    found = p["traffic"]
    assert found["recommended"]["hit_ratio"] < found["tier"]["hit_ratio"]
    hits, tokens = _prefix_lru(shared / CONVERSATION, 506 * GIB // BLOCK_BYTES)
    assert found["recommended"]["hit_ratio"] == pytest.approx(hits / tokens)


def test_chunks_lose_tails(traffic: Callable[..., Any], shared: Path) -> None:
    path = shared / "traces/tau/tau_airline_c8_bs16.jsonl.gz"
    chunked = traffic("--hbm-kv", "0.5GiB", "--trace", path, "--backend", "lmcache")["traffic"]
    native = traffic("--hbm-kv", "0.5GiB", "--trace", path)["traffic"]
    assert (
        native["reachable"]["hit_ratio"] == native["ceiling"]["hit_ratio"] == chunked["ceiling"]["hit_ratio"]
    )
    assert 0.85 < chunked["reachable"]["hit_ratio"] < native["reachable"]["hit_ratio"]


def test_prompts_that_the_model_refuses(traffic: Callable[..., Any], shared: Path) -> None:
    p = traffic("--gpu", "h100-80gb", "--trace", shared / "traces/agent/flat_40sess_c8_bs64.jsonl.gz")
    assert p["traffic"]["session_rule"]["context_tokens"] == 131072
    assert any("600 of 2,084 prompts" in note for note in p["traffic"]["notes"])


def test_nothing_to_say_without_a_trace(traffic: Callable[..., Any]) -> None:
    p = traffic("--hbm-kv", "28GiB", "--sessions", 200, "--context", 8192)
    assert p["traffic"] is None
    assert any(note.startswith("traffic is null") for note in p["notes"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--within", 2, "--sessions", 1, "--context", 8), "`--within` belongs to a trace"),
        (("--block-tokens", 16, "--sessions", 1, "--context", 8), "`--block-tokens` belongs to a trace"),
        (("--trace", "TRACE", "--within", 101), "`101` points"),
        (("--trace", "TRACE", "--context", 8), "a context without `--sessions`"),
        (("--trace", "no/such/file.jsonl"), "no/such/file.jsonl"),
    ],
)
def test_refusals(
    warmset: Callable[..., Any], tmp_path: Path, arguments: tuple[object, ...], message: str
) -> None:
    path = _rows(tmp_path / "t.jsonl", [[0, 1], [0, 1, 2]])
    given = [f"mooncake:{path}" if a == "TRACE" else a for a in arguments]
    ran = warmset("plan", "llama-3.1-8b", "--hbm-kv", 28, *given)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_said_to_a_person(warmset: Callable[..., Any], shared: Path) -> None:
    ran = warmset(
        "plan", "llama-3.1-8b", "--hbm-kv", 28, "--trace", shared / CONVERSATION, "--block-tokens", 512, "--within", 5
    )  # fmt: skip
    assert ran.code == 0
    assert ran.out.startswith(
        "Offload: a host tier of 1,682.0 GiB raises the hit rate of this traffic from 4.3 % to"
    )
    assert "tier by the session rule" in ran.out
    assert "tokens covered by listed blocks" in ran.out


def test_traffic_that_the_high_estimate_serves_is_said_to_need_no_tier(
    traffic: Callable[..., Any], tmp_path: Path
) -> None:
    blocks = 900
    path = _rows(tmp_path / "t.jsonl", [[n % blocks] for n in range(3 * blocks)])
    p = traffic("--gpu", "h100-80gb", "--trace", f"mooncake:{path}", "--block-tokens", 512)
    pool = p["device"]["kv_budget_bytes"]
    assert pool["best"] < blocks * BLOCK_BYTES < pool["high"]
    assert p["decision"]["verdict"] == "offload"
    assert any("high estimate" in reason for reason in p["decision"]["reasons"])
    twice = _rows(tmp_path / "u.jsonl", [[n % (2 * blocks)] for n in range(6 * blocks)])
    p = traffic("--gpu", "h100-80gb", "--trace", f"mooncake:{twice}", "--block-tokens", 512)
    assert p["decision"]["verdict"] == "offload"
    assert not any("high estimate" in reason for reason in p["decision"]["reasons"])


def test_the_command_serves_the_longest_prompt_of_the_trace(
    traffic: Callable[..., Any], tmp_path: Path
) -> None:
    longest = list(range(1000, 1040))
    rows = [[n % 60] for n in range(300)] + [longest] + [[n % 60] for n in range(300)]
    path = _rows(tmp_path / "t.jsonl", rows, sessions=[row[0] for row in rows])
    p = traffic("--gpu", "a10", "--trace", f"mooncake:{path}", "--block-tokens", 512)
    assert p["demand"]["context_tokens"] < 40 * 512 <= p["device"]["max_context_tokens"]
    assert f"--max-model-len {40 * 512} " in p["launch"]["command"]
    assert p["deployment"]["max_model_len"] == 40 * 512
