"""LMCache as a backend of the lab: what it is told, and how a connector that does nothing is found."""

import sys

import pytest

from warmset.errors import InputError
from warmset.lab.backends import HostTier, transfer_config
from warmset.lab.lmcache import check_lmcache, inert

IDLE = "lmcache_mp_event_bus_queue_depth 0.0\n"
BUSY = 'lmcache_mp_l1_write_chunks_total{model_name="m"} 12.0\n'


def test_lmcache_counts_in_gib_and_tokens():
    tier = HostTier(64, 1 << 20, blocks_per_chunk=2, block_tokens=32)
    extra = transfer_config("lmcache-inprocess", tier)["kv_connector_extra_config"]
    assert extra["lmcache.max_local_cpu_size"] == 64 / 1024
    assert extra["lmcache.chunk_size"] == 64
    assert (
        transfer_config("lmcache", tier, lmcache_port=7)["kv_connector_extra_config"]["lmcache.mp.port"] == 7
    )


@pytest.mark.parametrize("backend", ["lmcache", "lmcache-inprocess"])
def test_what_lmcache_lacks_is_said_before_anything_starts(backend, tmp_path):
    # A Python without site-packages finds neither LMCache nor warmset.
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    python.chmod(0o755)
    with pytest.raises(InputError, match=r"LMCache cannot be used by .*: ModuleNotFoundError") as found:
        check_lmcache(backend, str(python))
    assert "pip install" in found.value.hint


def test_other_backends_need_no_lmcache():
    check_lmcache("native", "/no/python")


@pytest.mark.parametrize(("page", "said"), [(IDLE, "stored nothing"), (BUSY, "stored and answered nothing")])
def test_a_server_that_answers_nothing_is_inert(tmp_path, page, said):
    (tmp_path / "lmcache.end.prom").write_text(page)
    verdict = inert("lmcache", 4096, tmp_path)
    assert (verdict.name, verdict.reason) == ("inert", "connector_inert")
    assert said in verdict.summary
    assert "4,096 tokens" in verdict.summary


def test_the_in_process_connector_is_inert_without_cuda(tmp_path):
    verdict = inert("lmcache-inprocess", 4096, tmp_path)
    assert verdict.name == "inert"
    assert verdict.next_steps[0].command == "warmset lab --backend lmcache"


@pytest.mark.parametrize(("backend", "asked"), [("lmcache", 0), ("native", 4096)])
def test_nothing_is_said_where_no_tier_would_have_answered(tmp_path, backend, asked):
    assert inert(backend, asked, tmp_path) is None
