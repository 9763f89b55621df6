"""`warmset launch` from the command line."""

import re
import shlex
from collections.abc import Callable
from typing import Any

import pytest
import yaml

CASES = [
    (
        "llama-3.1-8b",
        "--tier",
        "230GiB",
        "--engine",
        "vllm@0.26",
        "--backend",
        "lmcache-inprocess",
        "--as",
        "helm",
    ),
    ("llama-3.1-8b", "--tier", "230GiB", "--engine", "vllm@0.13"),
    ("--tier", "230"),
    ("a/b", "--tier", "230", "--backend", "native+object", "--object-store", "s3://b/p", "--as", "kserve"),
    ("a/b", "--tier", "200GB", "--engine", "sglang@0.5.23", "--as", "compose"),
    ("a/b", "--tier", "64GiB", "--backend", "lmcache", "--lmcache", "0.5.6", "--disk-size", "1TiB"),
]


@pytest.mark.parametrize("arguments", CASES)
def test_output_follows_the_schema(warmset, arguments):
    ran = warmset("launch", *arguments, "-o", "json")
    assert ran.code == 0, ran.err
    payload = ran.valid("launch")
    assert payload["schema"] == "warmset.launch/1"
    assert shlex.split(payload["command"])
    assert yaml.safe_load(warmset("launch", *arguments, "-o", "yaml").out) == payload
    assert payload["command"] in warmset("launch", *arguments).out
    assert payload["command"] in warmset("launch", *arguments, "-o", "md").out


def test_a_catalogue_name_becomes_what_the_server_downloads(warmset):
    argv = warmset("launch", "llama-3.1-8b", "--tier", "1", "-o", "json").json()["argv"]
    assert argv[2].startswith("meta-llama/")


@pytest.mark.parametrize(
    ("arguments", "said", "hinted"),
    [
        (("lama-3.1-8b", "--tier", "1"), "lama-3.1-8b", "llama-3.1-8b"),
        (("a/b", "--tier", "1", "--engine", "vllm@0.10"), "0.10.2", "--engine vllm@0.11.0"),
        (
            ("a/b", "--tier", "1", "--engine", "vllm@0.21", "--backend", "native+disk"),
            "0.21.0",
            "vllm@0.22.0",
        ),
        (("a/b", "--tier", "1", "--engine", "tgi@1"), "tgi", "vllm@"),
        (("a/b", "--tier", "-1"), "-1", ""),
        (("a/b", "--tier", "0"), "0", "1 MiB"),
        (("a/b", "--tier", "1", "--backend", "nativ"), "nativ", "native"),
        (("a/b", "--tier", "1", "--as", "swarm"), "swarm", "compose"),
        (("a/b", "--tier", "1", "--tp", "0"), "--tp", "--tp 1"),
        (("a/b",), "--tier", "--help"),
        (("a/b", "--tier", "1", "--lmcache", "x", "--backend", "lmcache"), "x", "lmcache@"),
    ],
)
def test_refusals(warmset, arguments, said, hinted):
    ran = warmset("launch", *arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert said in ran.err
    assert hinted in ran.err.partition("hint:")[2]


@pytest.mark.parametrize(
    ("engine", "tp", "tier", "taken"),
    [
        ("0.25", 2, 80, 128),
        ("0.25", 2, 64, 64),
        ("0.25", 4, 80, 128),
        ("0.32", 2, 80, 80),
        ("0.16", 1, 33, 64),
    ],
)
def test_host_memory_has_the_allocators_rounding_as_in_plan(warmset, engine, tp, tier, taken):
    where = ("llama-3.1-8b", "--engine", f"vllm@{engine}", "--tp", tp, "-o", "json")
    found = warmset("launch", *where, "--tier", f"{tier}GiB").json()
    assert found["host_memory_bytes"] == taken * 2**30
    assert any("rounded up to a power of two" in note for note in found["notes"]) == (taken > tier)
    planned = warmset(
        "plan", *where, "--hbm-kv", "28", "--sessions", tier, "--context", 8192, "--headroom", 0
    ).json()
    assert planned["tier"]["recommended_bytes"] == tier * 2**30
    assert planned["tier"]["host_memory_bytes"] == taken * 2**30


def test_two_kinds_of_cache_take_the_size_of_sglang_twice(warmset):
    where = ("gemma-3-27b", "--engine", "sglang@0.5.23", "-o", "json")
    found = warmset("launch", *where, "--tier", "40GB").json()
    planned = warmset("plan", *where, "--hbm-kv", "20", "--sessions", 40, "--context", "32k").json()
    times = planned["tier"]["host_memory_bytes"] / planned["tier"]["recommended_bytes"]
    assert found["host_memory_bytes"] / found["tier_bytes"] == pytest.approx(times, rel=0.05)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--tp", 3), "does not divide the model's 32 attention heads"),
        (("--max-model-len", "1m"), "past the model's maximum of 131,072"),
        (("--disk-path", "/mnt/kv"), "has no use: backend `native`"),
        (("--disk-path", "/mnt/kv", "--backend", "lmcache"), "has no use: backend `lmcache`"),
    ],
)
def test_what_the_server_would_refuse_or_ignore_is_refused(warmset, arguments, said):
    ran = warmset("launch", "llama-3.1-8b", "--tier", "80", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert "\n\nhint: " in ran.err


@pytest.mark.parametrize("model", ["llama-3.1-8b", "gemma-3-27b"])
def test_hybrid_models_are_spoken_of_where_the_model_is_one(warmset, model):
    ran = warmset("launch", model, "--tier", "80", "--backend", "lmcache", "-o", "json").json()
    assert any("hybrid" in note for note in ran["notes"]) == (model != "llama-3.1-8b")
    unknown = warmset("launch", "a/b", "--tier", "80", "--backend", "lmcache", "-o", "json").json()
    assert any("hybrid" in note for note in unknown["notes"])


def test_plan_and_launch_agree_on_where_the_tier_lives(warmset):
    where = ("llama-3.1-8b", "-o", "json")
    for backend in ("native", "lmcache", "lmcache-inprocess"):
        planned = warmset(
            "plan", *where, "--hbm-kv", 28, "--sessions", 80, "--context", 8192, "--backend", backend
        ).json()["tier"]
        found = warmset(
            "launch", *where, "--tier", f"{planned['recommended_bytes']}B", "--backend", backend
        ).json()
        assert found["shm_bytes"] == planned["dev_shm_bytes"]
        assert found["host_memory_bytes"] == planned["host_memory_bytes"]


@pytest.mark.parametrize(
    ("more", "address"),
    [
        ((), "http://localhost:8000"),
        (("--backend", "hicache"), "http://localhost:30000"),
        (("--port", "9000", "--as", "compose"), "http://localhost:9000"),
        (("--port", "9000", "--as", "helm"), "http://localhost:9000"),
        (("--port", "8000", "--as", "kserve"), "http://localhost:8000"),
        (("--backend", "hicache", "--as", "kserve"), "http://localhost:8000"),
    ],
)
def test_the_next_command_asks_the_server_that_was_started(warmset, more, address):
    asked = ("launch", "llama-3.1-8b", "--tier", "80", *more)
    found = warmset(*asked, "-o", "json").json()
    *_, baseline, last = [step["command"] for step in found["next_steps"]]
    assert found["metrics_url"] == address
    assert last == f"warmset measure {address} --for 5m"
    assert baseline == f"{last} --save before.json"
    assert "--baseline before.json" in found["next_steps"][-2]["text"]
    assert "as it runs now, before you type the command above" in found["next_steps"][-2]["text"]
    lines = [line.strip() for line in warmset(*asked).out.splitlines()[-len(found["next_steps"]) :]]
    assert lines == [f"{step['command']}  # {step['text']}" for step in found["next_steps"]]


@pytest.mark.parametrize("target", ["shell", "compose", "helm", "kserve"])
def test_what_to_type_next_needs_nothing_filled_in(warmset, target):
    found = warmset("launch", "llama-3.1-8b", "--tier", "80", "--as", target, "-o", "json").json()
    for step in found["next_steps"]:
        assert not re.search(r"\b[A-Z]{3,}\b|[<>…]", step["command"])
    forwards = [s["command"] for s in found["next_steps"] if s["command"].startswith("kubectl port-forward ")]
    assert len(forwards) == (target in ("helm", "kserve"))
    if target == "kserve":
        assert forwards == ["kubectl port-forward service/llama-3-1-8b-kserve-workload-svc 8000:8000"]
    if target == "helm":
        name = yaml.safe_load(found["files"]["values.yaml"])["servingEngineSpec"]["modelSpec"][0]["name"]
        assert found["command"].startswith("helm upgrade --install vllm ")
        assert forwards == [f"kubectl port-forward deployment/vllm-{name}-deployment-vllm 8000:8000"]


def test_https_of_kserve_is_explained(warmset):
    """Whether it is on is a setting of the cluster, which nobody can know here; SGLang never has it."""
    asked = ("launch", "llama-3.1-8b", "--tier", "80", "--as", "kserve", "-o", "json")
    (note,) = [n for n in warmset(*asked).json()["notes"] if "TLS" in n]
    for said in ("llama-3-1-8b-kserve-self-signed-certs", "https://localhost:8000", "--ca-file kserve.crt"):
        assert said in note
    assert not any("TLS" in n for n in warmset(*asked, "--engine", "sglang").json()["notes"])


def test_sglang_on_kserve_is_told_nothing_of_vllm(warmset):
    asked = ("launch", "qwen3-4b", "--tier", "80", "--engine", "sglang", "--as", "kserve", "-o", "json")
    notes = " ".join(warmset(*asked).json()["notes"])
    assert "vllm" not in notes.lower()
    assert "kvCacheOffloading" not in notes
    assert "kserve-llm-sglang" in notes


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_port_that_kserve_cannot_have_is_refused(warmset, engine):
    asked = ("launch", "llama-3.1-8b", "--tier", "80", "--as", "kserve", "--engine", engine)
    ran = warmset(*asked, "--port", "9000")
    assert (ran.code, ran.out) == (2, "")
    assert "`--port 9000`" in ran.err
    assert "leave `--port` out" in ran.err.partition("hint:")[2]
    assert warmset(*asked, "--port", "8000").code == 0


def test_a_published_port_of_sglang_is_answered(warmset: Callable[..., Any]) -> None:
    """Its default address is 127.0.0.1: in a container, nobody outside would reach it."""
    words = ("launch", "qwen3-4b", "--tier", "200GB", "--as", "compose", "-o", "json")
    service = yaml.safe_load(warmset(*words, "--engine", "sglang").json()["files"]["compose.yaml"])[
        "services"
    ]["sglang"]
    assert service["command"][-2:] == ["--host", "0.0.0.0"]
    assert "--host" not in warmset(*words).json()["files"]["compose.yaml"]


@pytest.mark.parametrize(
    "command",
    [
        ("launch", "llama-3.1-8b", "--tier", "230GiB"),
        ("plan", "llama-3.1-8b", "--gpu", "h100", "--sessions", "200", "--context", "8k"),
    ],
)
@pytest.mark.parametrize("backend", ["native", "native+warmset", "lmcache", "lmcache-inprocess"])
def test_every_backend_meets_the_schema(
    warmset: Callable[..., Any], command: tuple[str, ...], backend: str
) -> None:
    ran = warmset(*command, "--backend", backend, "-o", "json")
    assert ran.code == 0, ran.err
    ran.valid(command[0])


# What the notes of a launch say too: nothing that a file could mend.
TOLD = {
    "unbounded-disk-tier",
    "shm-restart",
    "disk-tier-restart",
    "lmcache-in-process-retired",
    "metrics-hidden",
}


@pytest.mark.parametrize("target", ["shell", "compose", "helm", "kserve"])
@pytest.mark.parametrize("engine", ["vllm@0.32", "vllm@0.24", "vllm@0.19", "sglang@0.5.23"])
def test_check_finds_nothing_new_in_what_launch_writes(warmset, tmp_path, engine, target):
    for backend in ("native", "native+disk", "lmcache", "lmcache-inprocess", "hicache"):
        words = ("--tier", "230GiB", "--engine", engine, "--backend", backend, "--as", target)
        found = warmset("launch", "llama-3.1-8b", *words, "-o", "json")
        if found.code:
            continue
        files = found.json()["files"] or {"serve.sh": found.json()["command"] + "\n"}
        folder = tmp_path / backend
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)
        checked = warmset("check", "--engine", engine, str(folder), "-o", "json").json()
        worse = [f for f in checked["findings"] if f["rule"] not in TOLD and f["severity"] != "note"]
        assert worse == []


def test_the_cache_server_of_lmcache_lives_on_nodes_for_gpus(warmset):
    words = ("launch", "llama-3.1-8b", "--tier", "230GiB", "--backend", "lmcache", "-o", "json")
    for target, name in (("helm", "lmcache-server.yaml"), ("kserve", "llminferenceservice.yaml")):
        found = warmset(*words, "--as", target).json()
        pod = next(iter(yaml.safe_load_all(found["files"][name])))["spec"]["template"]["spec"]
        assert [t["key"] for t in pod["tolerations"]] == ["nvidia.com/gpu"]
        assert any("nodeSelector" in note for note in found["notes"])


@pytest.mark.parametrize("target", ["shell", "compose", "helm", "kserve"])
def test_dev_shm_is_spoken_of_as_the_target_has_it(warmset, target):
    words = ("launch", "llama-3.1-8b", "--tier", "80", "--engine", "vllm@0.32", "--backend", "native+disk")
    notes = " ".join(warmset(*words, "--as", target, "-o", "json").json()["notes"])
    assert ("mount -o remount" in notes) == (target == "shell")
    assert ("delete the pod" in notes) == (target in ("helm", "kserve"))


def test_a_size_that_bounds_nothing_is_said(warmset):
    asked = ("launch", "llama-3.1-8b", "--tier", "64GiB", "--backend", "native+disk", "--dp", "2")
    told = [
        note
        for note in warmset(*asked, "--disk-size", "1TiB", "-o", "json").json()["notes"]
        if note.startswith("`--disk-size` bounds nothing")
    ]
    assert len(told) == 1
    assert f"--capacity {2 * 2**40}B" in told[0]
    plain = warmset(*asked, "-o", "json").json()["notes"]
    assert not any("--disk-size" in note for note in plain)
    assert any("has no size limit of its own" in note for note in plain)
