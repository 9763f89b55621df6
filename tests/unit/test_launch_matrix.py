"""Every version × backend × target: nothing that the version does not have, everything that parses."""

import json
import re
import shlex

import pytest
import yaml

from warmset.errors import Unsupported
from warmset.launch import BACKENDS, TARGETS, LaunchRequest, write
from warmset.servers import engine, inspected

GIB = 2**30
VLLM = [engine(f"vllm@{v}") for v in inspected("vllm")]
SGLANG = [engine(f"sglang@{v}") for v in inspected("sglang")]
# Read by libraries beside the server, not by the server: never part of its surface.
OUTSIDE = {"NODE_IP", "HF_TOKEN", "VLLM_ADDITIONAL_ARGS", "NVIDIA_VISIBLE_DEVICES"}
CREDENTIALS = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}


def request(server, backend, target, **more):
    extra = {"object_url": "s3://bucket/kv/cache"} if backend == "native+object" else {}
    return LaunchRequest(
        model="org/some-model",
        tier_bytes=230 * GIB,
        engine=server,
        backend=backend,
        target=target,
        bytes_per_token_per_rank=131072,
        **(extra | more),
    )


def combinations():
    for server in (*VLLM, *SGLANG):
        for backend in BACKENDS:
            for target in TARGETS:
                for shape in (
                    {},
                    {
                        "tp": 4,
                        "dp": 2,
                        "kv_dtype": "fp8",
                        "max_model_len": 32768,
                        "port": 9000,
                        "block_size": 32,
                    },
                ):
                    if target == "kserve":
                        shape = {name: value for name, value in shape.items() if name != "port"}
                    yield request(server, backend, target, **shape)


@pytest.mark.parametrize("server", [*VLLM, *SGLANG], ids=str)
def test_everything_emitted_exists_in_that_version(server):
    written = 0
    for wanted in combinations():
        if wanted.engine is not server:
            continue
        try:
            launch = write(wanted)
        except Unsupported as error:
            assert error.hint
            assert "--engine " in error.hint or "--lmcache " in error.hint or "--as " in error.hint, (
                error.hint
            )
            continue
        written += 1
        check_names(launch)
        check_text(launch)
    assert written


def check_names(launch):
    server, lmcache = launch.request.engine, engine("lmcache")
    for word in launch.argv:
        if word.startswith("--"):
            assert server.has_flag(word), word
    for word in launch.cache_server_argv:
        if word.startswith("--"):
            assert lmcache.has_flag(word), word
    for name in launch.env:
        source = lmcache if name.startswith("LMCACHE_") else server
        assert source.env(name), name
    config = launch.transfer_config
    if config is None:
        return
    assert json.loads(launch.argv[launch.argv.index("--kv-transfer-config") + 1]) == config
    assert set(config) <= set(server.config_fields("KVTransferConfig"))
    connector = config["kv_connector"]
    assert server.connector(connector)
    extra = config.get("kv_connector_extra_config", {})
    own = config.get("kv_connector_module_path", "").startswith("lmcache.")
    keys = set(server.extra_config_keys(connector, extra.get("spec_name")))
    assert set(extra) <= keys | (set(lmcache.extra_config_keys(connector)) if own else set())
    if "spec_name" in extra:
        assert server.spec(extra["spec_name"])
    for tier in extra.get("secondary_tiers", []):
        if "module_path" in tier:
            # A class of another package, whose keys are not the server's.
            assert "module_path" in server.extra_config_keys("OffloadingConnector", extra["spec_name"], "fs")
            continue
        assert server.tier(tier["type"])
        known = server.extra_config_keys(connector, extra["spec_name"], tier["type"])
        given = set(tier) | {f"store_config.{n}" for n in tier.get("store_config", {})}
        assert given <= set(known)
        assert {n for n, key in known.items() if key.required} <= given
    required = {
        n for n, k in server.extra_config_keys(connector, extra.get("spec_name")).items() if k.required
    }
    assert required - {"connectors"} <= set(extra)
    if server.default("kv_load_failure_policy") == "fail":
        assert config["kv_load_failure_policy"] == "recompute"
    if "secondary_tiers" in extra and server.default("hash_seed") == "random":
        assert launch.env["PYTHONHASHSEED"] == "0"


def check_text(launch):
    words = shlex.split(launch.command)
    target = launch.request.target
    assert launch.metrics_url in launch.next_steps[-1].command
    assert all(shlex.split(step.command, comments=True) for step in launch.next_steps)
    assert "\n" not in launch.command
    everything = launch.command + "".join(launch.files.values())
    assert not re.search(r"--cpu-offload-gb|--swap-space|LMCACHE_USE_EXPERIMENTAL", everything)
    if target == "shell":
        commands = [list(launch.cache_server_argv), list(launch.argv)]
        expected = [f"{n}={v}" for n, v in launch.env.items()]
        joined = [*commands[0], "&", *expected, *commands[1]] if commands[0] else [*expected, *commands[1]]
        assert words == joined
        return
    documents = [d for text in launch.files.values() for d in yaml.safe_load_all(text)]
    assert documents
    check_scalars(documents)
    {"compose": check_compose, "helm": check_helm, "kserve": check_kserve}[target](launch, documents)


def check_scalars(node):
    """Only plain YAML types; environment values are strings."""
    if isinstance(node, dict):
        for key, value in node.items():
            assert isinstance(key, str)
            if key in ("args", "command", "extraArgs", "entrypoint"):
                assert all(isinstance(word, str) for word in value), value
            if key == "env":
                assert all(isinstance(item.get("value", ""), str) for item in value), value
                names = [item["name"] for item in value]
                assert len(names) == len(set(names))
                for item in value:
                    if item["name"] in CREDENTIALS:
                        assert "secretKeyRef" in item["valueFrom"]
            check_scalars(value)
    elif isinstance(node, list):
        for value in node:
            check_scalars(value)
    else:
        assert node is None or isinstance(node, (str, int, bool)), node


def check_compose(launch, documents):
    server = documents[0]["services"]["vllm" if launch.request.engine.server == "vllm" else "sglang"]
    program, *words = [*server["entrypoint"], *(word.replace("$$", "$") for word in server["command"])]
    # Where LMCache's image has it, which is not on the image's path.
    assert program in (launch.argv[0], f"/opt/venv/bin/{launch.argv[0]}")
    assert (program != launch.argv[0]) == server["image"].startswith("lmcache/")
    typed = [launch.argv[0], *words]
    # By default SGLang listens on 127.0.0.1, which a published port does not reach.
    everywhere = ["--host", "0.0.0.0"] if "sglang" in documents[0]["services"] else []
    assert typed == [*launch.argv, *everywhere]
    assert all(value is None or isinstance(value, str) for value in server["environment"].values())
    for name in CREDENTIALS & set(server["environment"]):
        assert server["environment"][name] is None
    if launch.shm_bytes:
        assert int(server["shm_size"].removesuffix("gb")) * GIB >= launch.shm_bytes


def check_helm(launch, documents):
    model = documents[0]["servingEngineSpec"]["modelSpec"][0]
    config = model["vllmConfig"]
    # The chart passes --no-enable-prefix-caching without the first, and sizes /dev/shm only with the second.
    assert config["enablePrefixCaching"] is True
    assert config["tensorParallelSize"] == launch.request.tp
    assert isinstance(model["requestGPU"], int)
    assert isinstance(model["requestCPU"], int)
    assert re.fullmatch(r"\d+Gi", model["requestMemory"])
    assert int(model["shmSize"].removesuffix("Gi")) * GIB >= launch.shm_bytes
    assert all(isinstance(word, str) for word in config.get("extraArgs", []))
    lmcache = model.get("lmcacheConfig")
    if launch.request.backend == "lmcache-inprocess":
        assert lmcache["enabled"] is True
        assert "enablePD" not in lmcache
        given = lmcache.get("cpuOffloadingBufferSize")
        values = {item["name"]: item.get("value") for item in model.get("env", [])}
        assert (given is None) != ("LMCACHE_MAX_LOCAL_CPU_SIZE" not in values)
        assert given is None or int(given) > 0
        assert "--kv-offloading-size" not in config.get("extraArgs", [])
    else:
        assert lmcache is None
        if launch.transfer_config:
            arguments = config["extraArgs"]
            got = json.loads(arguments[arguments.index("--kv-transfer-config") + 1])
            assert got["kv_connector"] == launch.transfer_config["kv_connector"]


def check_kserve(launch, documents):
    service = documents[-1]
    assert service["kind"] == "LLMInferenceService"
    assert service["apiVersion"].startswith("serving.kserve.io/")
    main = service["spec"]["template"]["containers"][0]
    assert main["name"] == "main"
    assert main["resources"]["limits"]["nvidia.com/gpu"] == str(launch.request.devices)
    shm = service["spec"]["template"]["volumes"][0]
    assert shm["emptyDir"]["medium"] == "Memory"
    assert int(shm["emptyDir"]["sizeLimit"].removesuffix("Gi")) * GIB >= launch.shm_bytes
    arguments = main.get("args") or shlex.split(
        next(item["value"] for item in main["env"] if item["name"] == "VLLM_ADDITIONAL_ARGS")
    )
    if launch.transfer_config:
        got = json.loads(arguments[arguments.index("--kv-transfer-config") + 1])
        assert got["kv_connector"] == launch.transfer_config["kv_connector"]


@pytest.mark.parametrize(
    ("backend", "first"),
    [
        ("native", "0.11.0"),
        ("native+disk", "0.22.0"),
        ("native+object", "0.23.0"),
        ("native+warmset", "0.28.0"),
        ("lmcache", "0.23.0"),
        ("lmcache-inprocess", "0.8.5"),
    ],
)
def test_a_backend_begins_with_the_version_that_brought_it(backend, first):
    for server in VLLM:
        wanted = request(server, backend, "shell")
        if server.version < engine(f"vllm@{first}").version:
            with pytest.raises(Unsupported) as caught:
                write(wanted)
            assert f"--engine vllm@{first}" in caught.value.hint
        else:
            write(wanted)


def test_credentials_are_references_everywhere(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    for server in (engine("vllm@0.25"), engine("vllm@0.32")):
        for target in TARGETS:
            launch = write(request(server, "native+object", target))
            text = launch.command + "".join(launch.files.values()) + repr(launch)
            assert "hunter2" not in text
            assert "AKIDEXAMPLE" not in text
            assert "AWS_SECRET_ACCESS_KEY" in "".join((text, *launch.notes))


def test_the_shell_fills_credentials_into_valid_json():
    import subprocess

    launch = write(request(engine("vllm@0.24"), "native+object", "shell"))
    shown = subprocess.run(
        ["/bin/sh", "-c", 'vllm() { for w in "$@"; do printf \'%s\\n\' "$w"; done; }; ' + launch.command],
        env={"AWS_ACCESS_KEY_ID": "A+/key", "AWS_SECRET_ACCESS_KEY": "S/e+cret="},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    store = json.loads(shown[-1])["kv_connector_extra_config"]["secondary_tiers"][0]["store_config"]
    assert store["access_key"] == "A+/key"
    assert store["secret_key"] == "S/e+cret="
