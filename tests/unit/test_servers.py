"""The tables of servers: shape, evidence, and the answers that operators get wrong."""

import csv
import json
from importlib.resources import files
from pathlib import Path

import pytest

from warmset.errors import InputError, UnknownName
from warmset.servers import SERVERS, Version, engine, inspected
from warmset.servers.facts import RuleFact
from warmset.servers.tables import facts

KINDS = ("flag", "connector", "config_field", "extra_key", "env", "rule", "metric")


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_facts_with_a_source_and_a_range_of_inspected_versions(server, kind):
    known = inspected(server)
    for fact in facts(server, kind):
        assert fact.source, fact
        assert fact.since <= fact.until, fact
        assert {fact.since, fact.until} <= set(known), fact


def _identity(fact):
    parts = tuple(getattr(fact, name, "") for name in ("kind", "config", "connector", "spec", "tier"))
    return (*parts, fact.key if isinstance(fact, RuleFact) else fact.name)


@pytest.mark.parametrize("server", SERVERS)
def test_no_name_has_two_rows_in_one_version(server):
    for kind in KINDS:
        for version in inspected(server):
            holding = [f for f in facts(server, kind) if f.since <= version <= f.until]
            keys = [_identity(fact) for fact in holding]
            assert len(keys) == len(set(keys)), (kind, version, {k for k in keys if keys.count(k) > 1})


@pytest.mark.parametrize("server", SERVERS)
def test_a_role_is_measured_by_one_metric_in_a_version(server):
    for version in inspected(server):
        roles = [m.role for m in engine(f"{server}@{version}").metrics() if m.role]
        assert len(roles) == len(set(roles)), version


def test_replacements_exist_in_the_versions_that_need_them():
    for server in SERVERS:
        newest = engine(server)
        for kind in ("flag", "connector", "extra_key", "metric"):
            for fact in facts(server, kind):
                if fact.replaced_by:
                    assert engine(f"{server}@{fact.until}").versions_with(kind, fact.replaced_by), fact
                    assert newest.server == server


def test_every_flag_connector_key_and_metric_of_the_evidence_is_here(shared):
    surface = json.loads((shared / "reference" / "surface.json").read_text())
    tables = {
        "flag": surface["cli_flags"],
        "connector": surface["connectors"],
    }
    for kind, names in tables.items():
        for name, ranges in names.items():
            held = set(engine("vllm").versions_with(kind, name))
            expected = {
                v
                for v in inspected("vllm")
                if any(Version.parse(a) <= v <= Version.parse(b) for a, b in ranges)
            }
            assert held == expected, name
    for name, ranges in surface["metric_registration_names"].items():
        for first, last in ranges:
            for version in (first, last):
                exposed = engine(f"vllm@{version}")
                assert exposed.metric_named(name) or exposed.metric_named(name + "_total"), (name, version)


def test_every_family_of_a_real_scrape_is_known_with_its_type(shared):
    newest = engine("vllm@0.32")
    for path in sorted((shared / "metrics").glob("*.prom")):
        for line in path.read_text().splitlines():
            if line.startswith("# TYPE vllm:") and not line.split()[2].endswith("_created"):
                _, _, name, kind = line.split()
                fact = newest.metric_named(name)
                assert fact is not None, name
                assert fact.type == kind, name


def test_answers_that_differ_by_version():
    assert engine("vllm@0.19").default("gpu_memory_utilization") == 0.9
    assert engine("vllm@0.20").default("gpu_memory_utilization") == 0.92
    assert engine("vllm@0.12").default("kv_load_failure_policy") is None
    assert engine("vllm@0.16").default("kv_load_failure_policy") == "recompute"
    assert engine("vllm@0.17.0").default("kv_load_failure_policy") == "fail"
    assert not engine("vllm@0.11.0").has_flag("--kv-offloading-size")
    assert engine("vllm@0.11.1").has_flag("--kv-offloading-size")
    assert engine("vllm@0.26").flag("--kv-offloading-size").unit == "GiB total per engine"
    assert engine("vllm@0.26").flag("--cpu-offload-gb").scope == "weights"
    assert engine("vllm@0.13").replaced_by("SharedStorageConnector") == "ExampleConnector"
    assert engine("vllm@0.12").replaced_by("SharedStorageConnector") == "ExampleConnector"
    assert engine("vllm@0.17.1").has_flag("--swap-space")
    assert engine("vllm@0.18").removed("--swap-space").last == Version(0, 17, 1)
    assert engine("vllm@0.22").tier("fs_python")
    assert not engine("vllm@0.22").tier("fs")
    assert engine("vllm@0.23").tier("fs")
    assert engine("vllm@0.23").replaced_by("fs_python") == "fs"
    assert (
        engine("vllm@0.25")
        .extra_config_keys("OffloadingConnector", tier="obj")["store_config.access_key"]
        .required
    )
    assert (
        not engine("vllm@0.26")
        .extra_config_keys("OffloadingConnector", tier="obj")["store_config.access_key"]
        .required
    )
    assert "kv_ip" in engine("vllm@0.31").config_fields()
    assert "kv_ip" not in engine("vllm@0.32").config_fields()
    assert "num_cpu_blocks" in engine("vllm@0.13").extra_config_keys("OffloadingConnector")
    assert "cpu_bytes_to_use" in engine("vllm@0.14").extra_config_keys("OffloadingConnector")
    assert engine("vllm@0.28").default("hash_seed") == "random"
    assert engine("vllm@0.29").default("hash_seed") == "fixed"
    assert engine("vllm@0.22").default("kv_offloading_size.lmcache")["kv_connector"] == "LMCacheConnectorV1"
    assert engine("vllm@0.23").default("kv_offloading_size.lmcache")["kv_connector"] == "LMCacheMPConnector"
    assert not engine("vllm@0.17").connector("OffloadingConnector").hybrid
    assert engine("vllm@0.22").connector("OffloadingConnector").hybrid
    assert engine("sglang@0.4.10").default("hicache_write_policy") == "write_through_selective"
    assert engine("sglang@0.5.23").flag("--enable-hicache")
    assert engine("lmcache@0.3.7").default("save_unfull_chunk") is True
    assert engine("lmcache@0.5.6").default("save_unfull_chunk") is False


def test_metrics_as_they_stand_on_the_endpoint():
    assert engine("vllm@0.32").metric("device_hit_tokens").name == "vllm:prefix_cache_hits_total"
    assert engine("vllm@0.9.1").metric("device_hit_tokens").name == "vllm:gpu_prefix_cache_hits_total"
    assert engine("vllm@0.8.5").metric("device_hit_tokens").unit == "blocks"
    assert engine("vllm@0.32").metric("transfer_bytes").name == "vllm:kv_offload_total_bytes_total"
    assert "inflated" in engine("vllm@0.26").metric("device_query_tokens").note
    assert engine("vllm@0.27").metric("device_query_tokens").note == ""
    assert engine("vllm@0.31").metric("prompt_tokens_cached_by_source") is None
    assert engine("vllm@0.15.1").metric("load_bytes") is None
    assert not engine("vllm@0.11").metric_named("vllm:gpu_prefix_cache_hits_total").shown
    assert engine("vllm@0.32").metric_named("vllm:time_to_first_token_seconds_bucket").role == "ttft"
    assert "cache_source" in engine("sglang@0.5.9").metric("prompt_tokens_cached_by_source").labels
    assert engine("lmcache@0.5.6").metric("tiering_read_time").unit == "milliseconds"


def test_versions_that_are_not_in_the_tables():
    assert engine("vllm").version == inspected("vllm")[-1]
    assert engine("vllm@0.11").version == Version(0, 11, 2)
    assert engine("vllm@0.11.0").facts_version == Version(0, 11, 0)
    newer = engine("vllm@0.99")
    assert newer.assumed_newest
    assert "newer than the newest known" in newer.notes[0]
    assert newer.default("gpu_memory_utilization") == 0.92
    between = engine("sglang@0.5.10")
    assert between.facts_version == Version(0, 5, 9)
    assert "not inspected" in between.notes[0]
    assert engine("vllm@v0.32.0+cpu").version == Version(0, 32, 0)
    assert engine(" VLLM@latest ").version == inspected("vllm")[-1]


@pytest.mark.parametrize(
    "text",
    [
        "vllm@",
        "vllm@abc",
        "vllm@0.7",
        "vllm@-1",
        "vllm@0.32.0.0.0",
        "vllm@" + "9" * 400,
        "sglang@0.3",
        "vllm@0.32 x",
    ],
)
def test_versions_that_are_refused(text):
    with pytest.raises(InputError) as caught:
        engine(text)
    assert caught.value.hint
    assert "@" in caught.value.hint


def test_unknown_servers_are_refused_with_the_nearest():
    with pytest.raises(UnknownName, match="vlm") as caught:
        engine("vlm@0.32")
    assert "vllm" in caught.value.suggestions


def test_tables_are_plain_csv():
    root = Path(str(files("warmset.servers"))) / "data"
    for path in root.rglob("*.csv"):
        with path.open(newline="") as handle:
            rows = list(csv.DictReader(handle))
        assert all(None not in row and None not in row.values() for row in rows), path
