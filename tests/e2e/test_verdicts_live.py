"""Verdicts on real vLLM: each situation is made for real, saved as two scrapes, and `measure` must name it.

Seven servers: one without a tier, which is the baseline, beside one with a tier that gets the same requests at the
same time, so that whatever else slows the machine slows both; one that meets three more kinds of traffic, a window
each; one with a small tier; one with slowed loads; two without prefix caching. A server is started when the first
test asks for it and ended before the next one starts.
"""

import contextlib
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pytest
from click.testing import CliRunner

from warmset.cli.measure import command as measure
from warmset.errors import GateFailed, Undecided
from warmset.lab.backends import HostTier, transfer_config
from warmset.lab.builtin import Shape, builtin
from warmset.lab.model import ModelShape, write_model
from warmset.lab.run import Listener, replay_between_scrapes
from warmset.lab.server import VllmServer, running

# A test that is the first to need a server waits for its start and all of its windows.
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

BLOCK_TOKENS, DEVICE_BLOCKS, TIER_BLOCKS, SMALL_TIER_BLOCKS = 32, 160, 400, 100
DEVICE_TOKENS, TIER_TOKENS = (DEVICE_BLOCKS - 1) * BLOCK_TOKENS, TIER_BLOCKS * BLOCK_TOKENS
LONGEST_TOKENS = 2048
# Decoding takes most of the time and says nothing about the tier.
OUTPUT_TOKENS = 2

# Grouped attention of the lab's own model; and another with a head of its own per query, half as deep and wider.
MODELS = {"grouped": ModelShape(), "multi-head": ModelShape(layers=2, hidden=384, heads=6, kv_heads=6)}

SLOW_LOADS = """
import time

from warmset.vllm import offloading
from warmset.vllm.host_worker import HostCopyWorker


class SlowLoads(HostCopyWorker):
    def _copy(self, job):
        if not job.to_host:
            time.sleep({seconds})
        return super()._copy(job)


offloading.HostCopyWorker = SlowLoads
SlowSpec = offloading.AnyDeviceOffloadingSpec
"""
# Per load, of some hundred tokens: more than their prefill takes on a machine that is busy otherwise.
SLOW_SECONDS = 3.0


@dataclass(frozen=True)
class Traffic:
    """A workload of the lab, laid out against capacities that need not be the server's."""

    workload: str
    requests: int
    device_tokens: int = DEVICE_TOKENS
    tier_tokens: int = TIER_TOKENS
    other_texts: int = 0

    def made(self, seed):
        shape = Shape(
            self.device_tokens, self.tier_tokens, self.requests, OUTPUT_TOKENS, seed + self.other_texts
        )
        return builtin(self.workload, shape)


CHAT = Traffic("chat", 100)
# Long conversations in turn that the device loses and the tier keeps, so that most of the prefill is at stake.
WARM = Traffic("overflow", 75, tier_tokens=int(0.55 * TIER_TOKENS))
TRAFFIC = {
    "off": {"warm": WARM},
    "on": {"warm": WARM},
    "other": {
        "random": Traffic("noreuse", 30, other_texts=100),
        "overflow": Traffic("overflow", 75, other_texts=200),
        # Conversations that fill less than half of the device pool.
        "local": Traffic("chat", 50, DEVICE_TOKENS // 2, BLOCK_TOKENS, other_texts=300),
    },
    "small": {"chat": CHAT},
    "slow": {"warm": replace(WARM, requests=35)},
    "no_prefix_cache": {"chat": Traffic("chat", 50), "random": Traffic("noreuse", 25, other_texts=100)},
    "no_prefix_cache_simple": {"chat": Traffic("chat", 50)},
}


BESIDE = ("off", "on")


class Lab:
    """Scrapes around every window of one model and seed; a server's windows are replayed when first asked for."""

    def __init__(self, home, model, seed):
        self.home, self.seed = home, seed
        self.shape = MODELS[model]
        self.model = write_model(home / "model", self.shape)
        self._done = set()

    def bytes_of(self, blocks):
        return HostTier(blocks, self.shape.kv_bytes_per_block(BLOCK_TOKENS)).bytes

    def scrapes(self, server, traffic):
        if server not in self._done:
            together = BESIDE if server in BESIDE else (server,)
            with contextlib.ExitStack() as stack, ThreadPoolExecutor() as pool:
                ups = [
                    stack.enter_context(running(self._server(n), self.home / f"{n}.log")) for n in together
                ]
                list(pool.map(self._replay, together, ups))
            self._done.update(together)
        name = f"{server}-{traffic}"
        return self.home / f"{name}.start.prom", self.home / f"{name}.end.prom"

    def _replay(self, name, up):
        for traffic, what in TRAFFIC[name].items():
            replay_between_scrapes(up, what.made(self.seed), 1, self.home, f"{name}-{traffic}", Listener())

    def _server(self, name):
        blocks = SMALL_TIER_BLOCKS if name == "small" else TIER_BLOCKS
        size = self.shape.kv_bytes_per_block(BLOCK_TOKENS)
        transfer = transfer_config("native", HostTier(blocks, size)) if name != "off" else None
        server = VllmServer(
            sys.executable,
            self.model,
            DEVICE_BLOCKS,
            BLOCK_TOKENS,
            size * (DEVICE_BLOCKS + 1),
            LONGEST_TOKENS,
            1,
            transfer,
        )
        if name == "slow":
            (self.home / "slow_loads.py").write_text(SLOW_LOADS.format(seconds=SLOW_SECONDS))
            extra = transfer["kv_connector_extra_config"]
            slow = extra | {"spec_name": "SlowSpec", "spec_module_path": "slow_loads"}
            path = os.pathsep.join(filter(None, [str(self.home), os.environ.get("PYTHONPATH")]))
            server = replace(
                server,
                transfer=transfer | {"kv_connector_extra_config": slow},
                environment={"PYTHONPATH": path},
            )
        if name.startswith("no_prefix_cache"):
            server = replace(server, arguments=("--no-enable-prefix-caching",))
        if name == "no_prefix_cache_simple":
            simple = {
                "kv_connector": "SimpleCPUOffloadConnector",
                "kv_role": "kv_both",
                "kv_connector_extra_config": {"cpu_bytes_to_use": self.bytes_of(TIER_BLOCKS)},
            }
            server = replace(server, transfer=simple)
        return server


@pytest.fixture(
    scope="module",
    params=[
        ("grouped", 1),
        pytest.param(("grouped", 2), marks=pytest.mark.full),
        pytest.param(("multi-head", 1), marks=pytest.mark.full),
    ],
    ids=lambda p: f"{p[0]}-seed{p[1]}",
)
def lab(vllm, tmp_path_factory, request):
    return Lab(tmp_path_factory.mktemp("verdicts"), *request.param)


@pytest.fixture(scope="module")
def baseline(lab):
    """What `--save` wrote of the run without a tier."""
    path = lab.home / "off.json"
    judged = judge(*lab.scrapes("off", "warm"), "--save", path)
    assert judged["verdict"] == "no_tier"
    return path


def judge(*arguments):
    """The answer of `warmset measure ARGUMENTS -o json`."""
    done = CliRunner().invoke(measure, [*map(str, arguments), "-o", "json"])
    if done.exception is not None and not isinstance(done.exception, (Undecided, GateFailed)):
        raise done.exception
    return json.loads(done.stdout)


def test_off_against_on_is_helping(lab, baseline):
    found = judge(*lab.scrapes("on", "warm"), "--baseline", baseline)
    assert found["verdict"] == "helping", found["summary"]
    assert found["meters"]["external_hit_tokens"] > 0
    assert found["baseline"]["meters"]["prompt_tokens"] == found["meters"]["prompt_tokens"]
    device = found["meters"]["hit_ratio"]["device"]["value"]
    assert found["meters"]["hit_ratio"]["combined"]["value"] > device


def test_the_tier_helps_without_a_baseline_too(lab):
    found = judge(*lab.scrapes("on", "warm"))
    assert found["verdict"] == "helping", found["summary"]


def test_random_prompts_are_no_reuse(lab, baseline):
    found = judge(*lab.scrapes("other", "random"))
    assert found["verdict"] == "no_reuse", found["summary"]
    assert judge(*lab.scrapes("other", "random"), "--baseline", baseline)["verdict"] == "no_reuse"


def test_more_than_the_tier_holds_is_thrashing(lab, baseline):
    found = judge(*lab.scrapes("other", "overflow"))
    assert found["verdict"] == "thrashing", found["summary"]
    known = judge(*lab.scrapes("other", "overflow"), "--tier", f"{lab.bytes_of(TIER_BLOCKS)}B")
    assert known["verdict"] == "thrashing", known["summary"]


def test_reuse_that_the_device_serves_is_not_needed(lab, baseline):
    found = judge(*lab.scrapes("other", "local"))
    assert found["verdict"] == "not_needed", found["summary"]
    assert judge(*lab.scrapes("other", "local"), "--baseline", baseline)["verdict"] == "not_needed"


@pytest.mark.parametrize("told", [True, False], ids=["told", "inferred"])
def test_a_tier_below_the_device_pool_is_too_small(lab, baseline, told):
    size = ("--tier", f"{lab.bytes_of(SMALL_TIER_BLOCKS)}B") if told else ()
    found = judge(*lab.scrapes("small", "chat"), "--baseline", baseline, *size)
    assert found["verdict"] == "tier_too_small", found["summary"]
    assert found["confidence"] == ("high" if told else "medium")


def test_slowed_loads_are_hurting(lab, baseline):
    found = judge(*lab.scrapes("slow", "warm"), "--baseline", baseline)
    assert found["verdict"] == "hurting", found["summary"]
    assert found["meters"]["external_hit_tokens"] > 0
    assert judge(*lab.scrapes("slow", "warm"))["verdict"] == "hurting"


def test_without_prefix_caching_the_native_tier_supplies_everything(lab):
    """vLLM 0.32 hashes blocks for the OffloadingConnector all the same, so this is no fault of the load path."""
    found = judge(*lab.scrapes("no_prefix_cache", "chat"))
    assert found["meters"]["hit_ratio"]["device"]["value"] == 0
    assert found["meters"]["external_hit_tokens"] > 0
    assert found["verdict"] == "helping", found["summary"]
    assert any("--no-enable-prefix-caching" in note for note in found["notes"])


def test_without_prefix_caching_a_tier_that_supplies_nothing_is_inert(lab):
    """The same server and connector; whatever the traffic, the device's cache must be on before anything is judged."""
    found = judge(*lab.scrapes("no_prefix_cache", "random"))
    assert found["meters"]["external_hit_tokens"] == 0
    assert (found["verdict"], found["reason"]) == ("inert", "prefix_caching_off"), found["summary"]
    assert "prefix cache" in found["summary"]
    assert "--no-enable-prefix-caching" in found["next_steps"][0]["text"]


def test_without_prefix_caching_the_simple_connector_is_inert(lab):
    """vLLM warns once and disables the connector; the server serves on as if nothing were wrong."""
    log = lab.home / "no_prefix_cache_simple.log"
    scrapes = lab.scrapes("no_prefix_cache_simple", "chat")
    assert judge(*scrapes)["verdict"] == "inert"
    found = judge(*scrapes, "--log", log)
    assert found["verdict"] == "inert", found["summary"]
    told = judge(*scrapes, "--tier", f"{lab.bytes_of(TIER_BLOCKS)}B")
    assert told["verdict"] == "inert", told["summary"]
