"""Units, versions and refusals of single launches."""

import json

import pytest
import yaml

import warmset
from warmset.api import launch_for
from warmset.errors import InputError, UnknownName, Unsupported
from warmset.launch import LaunchRequest, write
from warmset.servers import engine

GIB = 2**30


def launch(engine_name="vllm@0.32", tier=230 * GIB, **more):
    return write(LaunchRequest(engine=engine(engine_name), tier_bytes=tier, model="org/m", **more))


def extra(found):
    return found.transfer_config["kv_connector_extra_config"]


def test_native_is_typed_as_each_version_wants_it():
    assert "num_cpu_blocks" in extra(launch("vllm@0.11.0", bytes_per_token_per_rank=131072))
    assert launch("vllm@0.16").command == "vllm serve org/m --kv-offloading-size 230"
    assert launch("vllm@0.14.0", tier=GIB // 2).argv[-1] == "0.5"
    found = launch("vllm@0.17.0")
    assert extra(found) == {"cpu_bytes_to_use": 230 * GIB}
    assert found.transfer_config["kv_load_failure_policy"] == "recompute"


def test_blocks_per_rank_are_counted_from_the_geometry():
    # 230 GiB over 4 ranks, blocks of 16 tokens × 32 KiB per token and rank: 117,760 blocks on each rank.
    found = launch("vllm@0.13", tp=4, bytes_per_token_per_rank=32768)
    assert extra(found)["num_cpu_blocks"] == 230 * GIB // 4 // (16 * 32768) == 117_760
    with pytest.raises(Unsupported, match="bytes per token") as caught:
        launch("vllm@0.13")
    assert "vllm@0.14.0" in caught.value.hint


def test_units_per_backend():
    assert (
        launch("vllm@0.20", backend="lmcache-inprocess", tp=2, pp=2).env["LMCACHE_MAX_LOCAL_CPU_SIZE"]
        == "57.5"
    )
    found = launch(backend="lmcache", dp=2)
    assert found.cache_server_argv[:4] == ("lmcache", "server", "--l1-size-gb", "460")
    found = launch("sglang@0.5.23", backend="hicache", tp=2)
    # 230 GiB / 2 = 123.48 × 10^9 bytes, rounded up.
    assert found.argv[found.argv.index("--hicache-size") + 1] == "124"
    assert "--enable-metrics" in found.argv
    assert found.conversions[0].bytes == 124 * 10**9


def test_shared_memory_follows_the_version_and_the_replicas():
    assert launch("vllm@0.26").shm_bytes == 0
    assert launch("vllm@0.27").shm_bytes == 230 * GIB
    assert launch("vllm@0.22", backend="native+disk", dp=2).shm_bytes == 460 * GIB
    compose = yaml.safe_load(launch(target="compose").files["compose.yaml"])
    assert compose["services"]["vllm"]["shm_size"] == "232gb"


def test_disk_tier_name_and_seed_follow_the_version():
    old, new = launch("vllm@0.22", backend="native+disk"), launch("vllm@0.29", backend="native+disk")
    assert extra(old)["secondary_tiers"] == [{"type": "fs_python", "root_dir": "/kv"}]
    assert extra(new)["secondary_tiers"][0]["type"] == "fs"
    assert old.env == {"PYTHONHASHSEED": "0"}
    assert new.env == {}


def test_object_tier():
    found = launch(backend="native+object", object_url="s3://kv/a/b", endpoint="http://minio:9000")
    tier = extra(found)["secondary_tiers"][0]
    assert tier == {
        "type": "obj",
        "store_config": {"bucket": "kv", "endpoint_override": "http://minio:9000", "scheme": "http"},
        "prefix": "a/b",
    }
    old = launch("vllm@0.25", backend="native+object", object_url="s3://kv")
    assert extra(old)["secondary_tiers"][0]["store_config"]["access_key"] == "${AWS_ACCESS_KEY_ID}"
    assert "'\"${AWS_ACCESS_KEY_ID}\"'" in old.command


def test_the_worked_helm_example():
    found = launch("vllm@0.26", backend="lmcache-inprocess", target="helm")
    model = yaml.safe_load(found.files["values.yaml"])["servingEngineSpec"]["modelSpec"][0]
    assert model["lmcacheConfig"] == {"enabled": True, "cpuOffloadingBufferSize": "230"}
    assert any("outdated" in note and "0.26" in note for note in found.notes)
    assert any("PYTHONHASHSEED" in note for note in found.notes)


def test_a_buffer_that_the_chart_would_drop_goes_through_the_environment():
    found = launch("vllm@0.20", backend="lmcache-inprocess", target="helm", tp=4)
    model = yaml.safe_load(found.files["values.yaml"])["servingEngineSpec"]["modelSpec"][0]
    assert model["lmcacheConfig"] == {"enabled": True}
    assert {"name": "LMCACHE_MAX_LOCAL_CPU_SIZE", "value": "57.5"} in model["env"]


def test_in_process_disk_tier_has_both_settings():
    found = launch(
        "vllm@0.20", backend="lmcache-inprocess", tp=2, disk_bytes=500 * GIB, disk_path="/mnt/nvme"
    )
    assert found.env["LMCACHE_LOCAL_DISK"] == "file:///mnt/nvme/"
    assert found.env["LMCACHE_MAX_LOCAL_DISK_SIZE"] == "250"


def test_lmcache_server_that_cannot_read_the_layout_is_refused():
    with pytest.raises(Unsupported) as caught:
        launch(backend="lmcache", lmcache=engine("lmcache@0.4.2"))
    assert "0.4.7" in caught.value.hint


def test_pods_do_not_share_ipc():
    with pytest.raises(Unsupported, match="IPC"):
        launch(backend="lmcache", target="helm", lmcache=engine("lmcache@0.5.0"))
    config = json.loads(launch(backend="lmcache", target="kserve").argv[-1])
    assert config["kv_connector_extra_config"]["lmcache.mp.isolated_ipc"] is True
    assert config["kv_connector_module_path"].startswith("lmcache.")


@pytest.mark.parametrize("name", ["fp16", "bf16", "auto"])
def test_the_models_own_type_needs_no_flag(name):
    assert "--kv-cache-dtype" not in launch(kv_dtype=name).argv
    assert "--kv-cache-dtype" not in launch("sglang@0.5.23", backend="hicache", kv_dtype=name).argv


def test_unnamed_model_is_said():
    found = write(LaunchRequest(engine=engine("vllm"), tier_bytes=GIB))
    assert found.argv[2] == "MODEL"
    assert any("MODEL" in note for note in found.notes)


@pytest.mark.parametrize(
    "bad",
    [
        {"tier": 0},
        {"tier": 2**70},
        {"tp": 0},
        {"dp": -1},
        {"pp": 10**9},
        {"port": 70000},
        {"block_size": 0},
        {"backend": "native", "disk_bytes": GIB},
        {"backend": "native", "object_url": "s3://bucket"},
        {"backend": "native+object"},
        {"backend": "native+object", "object_url": "http://bucket"},
        {"backend": "native+object", "object_url": "s3://bucket", "endpoint": "https://user:pw@host"},
        {"backend": "native+object", "object_url": "s3://bucket", "endpoint": "ftp://host"},
        {"backend": "native+disk", "disk_path": "kv"},
        {"backend": "native+disk", "disk_path": "/kv$(rm)"},
        {"kv_dtype": "fp8; rm"},
        {"kv_dtype": "fp9"},
        {"backend": "native", "lmcache": engine("lmcache")},
    ],
)
def test_bad_requests_are_refused_with_a_hint(bad):
    with pytest.raises(InputError) as caught:
        launch(**bad)
    assert "`" in caught.value.message
    assert caught.value.hint
    assert "pw" not in caught.value.message


@pytest.mark.parametrize("model", ["", "-x", "a\nb", "$(id)", "a`b`", "'; rm -rf /'"])
def test_models_that_no_server_takes(model):
    with pytest.raises(InputError):
        LaunchRequest(engine=engine("vllm"), tier_bytes=GIB, model=model)


def test_wrong_server_for_a_backend():
    with pytest.raises(Unsupported) as caught:
        launch("sglang@0.5.23", backend="native")
    assert "--engine vllm@" in caught.value.hint
    with pytest.raises(Unsupported) as caught:
        launch("vllm@0.32", backend="hicache")
    assert "--engine sglang@" in caught.value.hint
    with pytest.raises(UnknownName):
        launch(backend="nativ")
    with pytest.raises(UnknownName):
        launch(target="docker")


def test_the_warmset_tier_has_a_store_a_bound_and_nothing_of_vllms_own():
    found = launch(backend="native+warmset", disk_path="/mnt/a b", disk_bytes=2 * 1024 * GIB, dp=2)
    (tier,) = found.transfer_config["kv_connector_extra_config"]["secondary_tiers"]
    assert tier == {
        "type": "WarmsetTier",
        "module_path": "warmset.vllm.tier",
        "store": "file:///mnt/a%20b",
        "capacity_bytes": 2 * 2 * 1024 * GIB,
    }
    for url in ("s3://kv/a", "gs://kv/a", "az://kv/a", "redis://host:6379/0"):
        extra = launch(backend="native+warmset", object_url=url).transfer_config["kv_connector_extra_config"]
        assert extra["secondary_tiers"][0]["store"] == url
        assert extra["secondary_tiers"][0]["capacity_bytes"] > 0


@pytest.mark.parametrize(
    "more",
    [
        {"object_url": "http://bucket"},
        {"object_url": "redis://:secret@host"},
        {"endpoint": "http://minio:9000"},
        {"object_url": "s3://kv", "endpoint": "ftp://host"},
    ],
)
def test_stores_that_the_warmset_tier_cannot_open_are_refused(more):
    with pytest.raises(InputError) as caught:
        launch(backend="native+warmset", **more)
    assert "secret" not in caught.value.message


def test_of_equal_latents_lmcache_gives_the_first_rank_the_whole_tier():
    given = {"tier": "400GiB", "engine": "vllm@0.24", "backend": "lmcache-inprocess", "tp": 8}
    latents = warmset.launch("deepseek-v3", **given)
    assert latents.env["LMCACHE_MAX_LOCAL_CPU_SIZE"] == "1"
    assert json.loads(latents.env["LMCACHE_EXTRA_CONFIG"]) == {"first_rank_max_local_cpu_size": 400.0}
    assert latents.host_memory_bytes == 407 * GIB
    heads = warmset.launch("llama-3.1-70b", **given)
    assert heads.env["LMCACHE_MAX_LOCAL_CPU_SIZE"] == "50"
    assert "LMCACHE_EXTRA_CONFIG" not in heads.env
    planned = warmset.plan(
        "deepseek-v3", sessions=200, context_tokens=32_768, hbm_kv="300GiB", engine="vllm@0.24", tp=8,
        backend="lmcache-inprocess",
    )  # fmt: skip
    command = launch_for(planned)
    assert command is not None
    (first,) = json.loads(command.env["LMCACHE_EXTRA_CONFIG"]).values()
    assert first * GIB == pytest.approx(planned.tier.recommended_bytes, rel=1e-6)


def test_python_counts_blocks_as_the_command_line_does():
    found = warmset.launch("llama-3.1-8b", tier="230GiB", engine="vllm@0.12", tp=4)
    assert '"num_cpu_blocks":117760' in found.command


def manifest(found):
    (text,) = [
        t for n, t in found.files.items() if n in ("compose.yaml", "values.yaml", "llminferenceservice.yaml")
    ]
    return list(yaml.safe_load_all(text))[-1]


def test_a_model_in_a_folder_is_brought_into_the_container():
    request = {"engine": engine("vllm@0.32"), "tier_bytes": GIB, "model": "/models/mine"}
    compose = manifest(write(LaunchRequest(target="compose", **request)))
    assert "/models/mine:/models/mine:ro" in compose["services"]["vllm"]["volumes"]
    values = manifest(write(LaunchRequest(target="helm", backend="native+disk", **request)))
    model = values["servingEngineSpec"]["modelSpec"][0]
    assert {m["mountPath"] for m in model["extraVolumeMounts"]} == {"/kv", "/models/mine"}
    assert {v["name"] for v in model["extraVolumes"]} == {m["name"] for m in model["extraVolumeMounts"]}
    assert write(LaunchRequest(**request)).command.startswith("vllm serve /models/mine ")


@pytest.mark.parametrize("model", ["/models/mine", "gs://bucket/mine", "file:///models/mine", "./mine"])
def test_kserve_fetches_no_model_from_there(model):
    request = LaunchRequest(engine=engine("vllm"), tier_bytes=GIB, model=model, target="kserve")
    with pytest.raises(InputError) as caught:
        write(request)
    assert f"`{model}`" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("target", ["compose", "helm", "kserve"])
@pytest.mark.parametrize("model", ["./mine", "../mine", "~/mine"])
def test_a_path_from_here_is_none_in_a_container(model, target):
    request = {"engine": engine("vllm"), "tier_bytes": GIB, "model": model}
    assert model in write(LaunchRequest(**request)).argv
    with pytest.raises(InputError) as caught:
        write(LaunchRequest(target=target, **request))
    assert "absolute path" in caught.value.hint


def test_kserve_takes_its_models_from_where_it_can():
    for model, uri in (
        ("org/m", "hf://org/m"),
        ("hf://org/m", "hf://org/m"),
        ("pvc://claim/m", "pvc://claim/m"),
        ("s3://bucket/m", "s3://bucket/m"),
    ):
        found = write(LaunchRequest(engine=engine("vllm"), tier_bytes=GIB, model=model, target="kserve"))
        assert manifest(found)["spec"]["model"]["uri"] == uri
        assert any("HF_TOKEN" in note for note in found.notes) == uri.startswith("hf://")


def test_the_image_of_vllm_runs_as_root_and_kserve_is_told_to_let_it():
    container = manifest(launch(target="kserve"))["spec"]["template"]["containers"][0]
    assert container["securityContext"] == {"runAsNonRoot": False}
    sglang = launch("sglang@0.5.23", backend="hicache", target="kserve")
    assert "securityContext" not in manifest(sglang)["spec"]["template"]["containers"][0]


@pytest.mark.parametrize("model", ["org/" + "a" * 90, "org/" + "9" * 90, "org/" + "a-" * 45])
def test_names_leave_room_for_what_kserve_appends(model):
    found = write(LaunchRequest(engine=engine("vllm"), tier_bytes=GIB, model=model, target="kserve"))
    name = manifest(found)["metadata"]["name"]
    assert len(name + "-kserve-self-signed-certs") <= 63
    assert name[0].isalpha()
    assert name[-1].isalnum()
    assert f"service/{name}-kserve-workload-svc" in found.next_steps[0].command


@pytest.mark.parametrize("target", ["compose", "helm", "kserve"])
def test_every_image_whose_tag_moves_is_named_with_what_it_must_carry(target):
    found = launch(backend="lmcache", target=target)
    (note,) = [n for n in found.notes if "`latest` moves" in n]
    assert "lmcache/standalone:latest" in note
    assert "lmcache@" in note
    inside = launch("vllm@0.25", backend="lmcache-inprocess", lmcache=engine("lmcache@0.4.7"), target=target)
    (note,) = [n for n in inside.notes if "`latest` moves" in n]
    assert "vllm@0.25" in note
    assert "lmcache@0.4.7" in note


@pytest.mark.parametrize("target", ["helm", "kserve"])
def test_the_secret_of_a_store_comes_with_the_command_that_makes_it(target):
    for more in (
        {"backend": "native+object", "object_url": "s3://kv"},
        {"backend": "native+warmset", "object_url": "redis://host"},
    ):
        found = launch(target=target, **more)
        (note,) = [n for n in found.notes if "kubectl create secret generic kv-object-store" in n]
        names = {item["name"] for item in _environment(found, target) if "valueFrom" in item}
        assert names
        assert all(f"`{name}=…`" in note for name in names)
    assert not any("create secret" in note for note in launch(target=target).notes)


def _environment(found, target):
    if target == "helm":
        return manifest(found)["servingEngineSpec"]["modelSpec"][0]["env"]
    return manifest(found)["spec"]["template"]["containers"][0]["env"]


def test_an_image_without_warmset_is_said_to_need_it():
    shell, compose = (launch(backend="native+warmset", target=target) for target in ("shell", "compose"))
    assert any("pip install 'warmset[tiers]'" in note and "FROM" not in note for note in shell.notes)
    assert any("FROM vllm/vllm-openai:v0.32.0" in note for note in compose.notes)


def test_programs_of_lmcaches_images_are_called_where_they_are():
    """They are in a virtual environment that is not on the path: production-stack issue 454."""
    compose = manifest(launch(backend="lmcache", target="compose"))["services"]
    assert compose["lmcache"]["entrypoint"] == ["/opt/venv/bin/lmcache", "server"]
    assert compose["vllm"]["entrypoint"] == ["vllm", "serve"]
    inside = {"engine_name": "vllm@0.20", "backend": "lmcache-inprocess"}
    assert (
        manifest(launch(target="compose", **inside))["services"]["vllm"]["entrypoint"][0]
        == "/opt/venv/bin/vllm"
    )
    env = _environment(launch(target="kserve", **inside), "kserve")
    assert env[0]["name"] == "PATH"
    assert env[0]["value"].startswith("/opt/venv/bin:")
    assert env[0]["value"].endswith("/usr/bin:/sbin:/bin")
    server = yaml.safe_load(launch(backend="lmcache", target="helm").files["lmcache-server.yaml"])
    assert server["spec"]["template"]["spec"]["containers"][0]["command"][0] == "/opt/venv/bin/lmcache"
    assert "/opt/venv" not in launch(**inside).command


@pytest.mark.parametrize("port", [5555, 8080])
def test_a_port_of_lmcaches_server_is_not_free_on_the_same_host(port):
    with pytest.raises(InputError, match=f"--port {port}") as caught:
        launch(backend="lmcache", port=port)
    assert "--port 8000" in caught.value.hint
    launch(backend="lmcache", port=port, target="compose")
