"""Launch commands against the real vLLM of this environment.

Its own argument parser and config classes read every native command. One is started as it was written, with one
substitution: a CPU build refuses vLLM's own host-tier worker, so `spec_name` names warmset's spec, which copies
through host memory and leaves scheduler, tiers and metrics to vLLM. What a CPU cannot show: pinned memory and
the CUDA copy path, tensor parallelism, NIXL, LMCache.
"""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from warmset.launch import Launch, LaunchRequest, write
from warmset.servers import Engine, engine

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

GIB = 2**30
SHAPES: tuple[dict[str, Any], ...] = (
    {},
    {"tp": 4, "pp": 2, "dp": 2, "kv_dtype": "fp8", "block_size": 32, "max_model_len": 32768, "port": 9000},
)


@pytest.fixture(scope="module")
def installed() -> Engine:
    """The vLLM that is installed here."""
    versions = pytest.importorskip("warmset.vllm.versions").installed_vllm()
    if versions is None:
        pytest.skip("vLLM is not installed here")
    return engine(f"vllm@{versions[1]}")


@pytest.fixture(scope="module")
def parse(installed: Engine) -> Any:
    """`vllm serve`'s own reading of its arguments."""
    import warmset.vllm.startup  # noqa: F401

    try:
        from vllm.entrypoints.launchers.cli_args import make_arg_parser
    except ImportError:
        from vllm.entrypoints.openai.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = make_arg_parser(FlexibleArgumentParser())

    def run(argv: list[str]) -> Any:
        arguments = parser.parse_args(argv)
        # As the serve command does with its positional argument.
        arguments.model = arguments.model_tag
        return arguments

    return run


def launch(installed: Engine, backend: str, **more: Any) -> Launch:
    stores = (
        {"object_url": "s3://bucket/kv", "endpoint": "https://minio:9000"}
        if backend == "native+object"
        else {}
    )
    return write(
        LaunchRequest(
            engine=installed, tier_bytes=GIB, backend=backend, **({"model": "org/model"} | stores | more)
        )
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "backend", ["native", "native+disk", "native+object", "native+warmset", "lmcache", "lmcache-inprocess"]
)
def test_the_real_parser_reads_the_command(installed, parse, backend, shape):
    written = launch(installed, backend, **shape)
    words = shlex.split(written.command)
    arguments = parse(words[words.index("vllm") + 2 :])
    assert arguments.model_tag == "org/model"
    assert arguments.tensor_parallel_size == shape.get("tp", 1)
    assert arguments.pipeline_parallel_size == shape.get("pp", 1)
    assert arguments.data_parallel_size == shape.get("dp", 1)
    assert arguments.kv_cache_dtype == shape.get("kv_dtype", "auto")
    assert arguments.max_model_len == shape.get("max_model_len")
    assert written.transfer_config is not None
    for name, value in written.transfer_config.items():
        assert getattr(arguments.kv_transfer_config, name) == value


@pytest.mark.parametrize("backend", ["native", "native+disk", "native+object"])
def test_vllms_own_classes_know_every_key(installed, parse, backend, tmp_path):
    import inspect

    from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
    from vllm.v1.kv_offload.factory import OffloadingSpecFactory
    from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory
    from vllm.v1.kv_offload.tiering.obj.config import ObjStoreConfig

    written = launch(installed, backend, disk_path=str(tmp_path))
    config = parse(list(written.argv[2:])).kv_transfer_config
    assert KVConnectorFactory.get_connector_class(config).__name__ == "OffloadingConnector"
    # The connector keeps the hybrid manager in this version, as the table says.
    fact = installed.connector("OffloadingConnector")
    assert fact is not None
    assert KVConnectorFactory.supports_hma_config(config) is fact.hybrid
    extra = config.kv_connector_extra_config
    spec = OffloadingSpecFactory.get_spec_cls(extra)
    assert spec.__name__ == extra.get("spec_name", "CPUOffloadingSpec")
    assert spec.build_metric_definitions(extra)
    for tier in extra.get("secondary_tiers", []):
        loader = SecondaryTierFactory._registry[tier["type"]]
        taken = inspect.signature(loader().__init__).parameters
        assert set(tier) - {"type"} <= set(taken), tier
        if "store_config" in tier:
            params = ObjStoreConfig(**tier["store_config"]).to_nixl_params()
            assert params["bucket"] == "bucket"
            assert "access_key" not in params


@pytest.mark.parametrize("backend", ["native", "native+disk"])
def test_vllm_builds_its_whole_configuration(installed, parse, backend, tmp_path):
    from vllm.engine.arg_utils import AsyncEngineArgs

    from warmset.lab.model import ModelShape, write_model

    model = write_model(tmp_path / "model", ModelShape())
    written = launch(installed, backend, model=str(model), disk_path=str(tmp_path / "kv"), block_size=32)
    arguments = parse([*written.argv[2:], "--max-model-len", "1024", "--dtype", "float32"])
    config = AsyncEngineArgs.from_cli_args(arguments).create_engine_config()
    assert config.kv_transfer_config.kv_connector == "OffloadingConnector"
    assert config.kv_transfer_config.kv_load_failure_policy == "recompute"
    assert config.kv_transfer_config.kv_connector_extra_config["cpu_bytes_to_use"] == GIB
    assert config.cache_config.enable_prefix_caching


def test_the_size_flag_expands_as_the_table_says(installed, parse, tmp_path):
    from vllm.engine.arg_utils import AsyncEngineArgs

    from warmset.lab.model import ModelShape, write_model

    model = str(write_model(tmp_path / "model", ModelShape()))
    for backend in ("native", "lmcache"):
        rule = installed.default(f"kv_offloading_size.{backend}")
        # An explicit connector is replaced without a word.
        given = json.dumps({"kv_connector": "ExampleConnector", "kv_role": "kv_both"})
        flags = ["--max-model-len", "1024", "--kv-offloading-size", "2", "--kv-offloading-backend", backend]
        # Decided by hand, so that vLLM need not load the connector's class to ask it: LMCache is not installed.
        flags.append("--disable-hybrid-kv-cache-manager")
        arguments = parse([model, *flags, "--kv-transfer-config", given])
        config = AsyncEngineArgs.from_cli_args(arguments).create_engine_config().kv_transfer_config
        assert config.kv_connector == rule["kv_connector"]
        if "cpu_bytes_to_use" in rule["extra"]:
            assert config.kv_connector_extra_config["cpu_bytes_to_use"] == 2 * GIB


def test_dotted_flags_win_over_the_json_that_the_chart_appends(installed, parse):
    written = launch(installed, "lmcache-inprocess", target="helm")
    model = yaml.safe_load(written.files["values.yaml"])["servingEngineSpec"]["modelSpec"][0]
    chart_json = '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'
    chart = ["org/model", "--enable-prefix-caching", "--tensor-parallel-size", "1"]
    arguments = parse([*chart, *model["vllmConfig"]["extraArgs"], "--kv-transfer-config", chart_json])
    assert arguments.kv_transfer_config.kv_connector == "LMCacheConnectorV1"
    assert arguments.kv_transfer_config.kv_role == "kv_both"
    assert arguments.kv_transfer_config.kv_load_failure_policy == "recompute"


def test_every_flag_of_the_table_is_one_of_the_parser(installed):
    """And the other way round: the table has missed none that touches KV cache."""
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = make_arg_parser(FlexibleArgumentParser())
    real = {name for action in parser._actions for name in action.option_strings if name.startswith("--")}
    listed = {flag.name for flag in installed.flags()}
    assert listed - real <= {"--help"}
    assert {name for name in real if re.match(r"--(kv|cpu-offload|offload|swap|prefix-c)", name)} <= listed


def test_the_defaults_of_the_table_are_those_of_the_config(installed):
    from vllm.config.cache import CacheConfig
    from vllm.config.kv_transfer import KVTransferConfig

    cache, transfer = CacheConfig(), KVTransferConfig()
    assert cache.gpu_memory_utilization == installed.default("gpu_memory_utilization")
    assert cache.prefix_caching_hash_algo == installed.default("prefix_caching_hash_algo")
    assert cache.kv_offloading_backend == installed.default("kv_offloading_backend")
    assert transfer.kv_load_failure_policy == installed.default("kv_load_failure_policy")
    assert {f for f in vars(transfer) if not f.startswith("_")} == set(
        installed.config_fields("KVTransferConfig")
    )


@pytest.mark.timeout(900)
def test_a_native_command_starts_and_its_tiers_work(installed, tmp_path):
    from warmset.lab.model import ModelShape, write_model
    from warmset.lab.server import _environment, command, free_port, wait_until_ready

    shape = ModelShape()
    model = write_model(tmp_path / "model", shape)
    block = shape.kv_bytes_per_block(32)
    port = free_port()
    written = write(
        LaunchRequest(
            model=str(model),
            engine=installed,
            tier_bytes=64 * block,
            backend="native+disk",
            disk_path=str(tmp_path / "kv"),
            block_size=32,
            max_model_len=1024,
            port=port,
        )
    )
    words = shlex.split(written.command)
    environment = dict(word.split("=", 1) for word in words[: words.index("vllm")])
    at = words.index("--kv-transfer-config") + 1
    config = json.loads(words[at])
    # The one substitution; everything else is what the launch says.
    config["kv_connector_extra_config"] |= {
        "spec_name": "AnyDeviceOffloadingSpec",
        "spec_module_path": "warmset.vllm.offloading",
    }
    words[at] = json.dumps(config)
    # `vllm serve` through the module that also works where the package's own console command does not start.
    argv = [sys.executable, "-m", "warmset.vllm.serve", *words[words.index("vllm") + 2 :]]
    argv += ["--host", "127.0.0.1", "--dtype", "float32", "--enforce-eager", "--served-model-name", "tiny"]
    argv += ["--num-gpu-blocks-override", "40", "--kv-cache-memory-bytes", str(40 * block)]
    url = f"http://127.0.0.1:{port}"
    with command(argv, tmp_path / "log", environment=_environment(environment)) as process:
        wait_until_ready(f"{url}/health", process, tmp_path / "log", 300)
        for seed in (1, 2, 3, 1):
            prompt = [(seed * 7919 + i * 104729) % 500 + 5 for i in range(20 * 32 + 3)]
            body = {"model": "tiny", "prompt": prompt, "max_tokens": 2, "temperature": 0}
            assert httpx.post(f"{url}/v1/completions", json=body, timeout=120).status_code == 200
        metrics = httpx.get(f"{url}/metrics", timeout=30).text

    def value(role: str) -> float:
        fact = installed.metric(role)
        assert fact is not None
        rows = re.findall(rf"^{re.escape(fact.name)}(?:{{[^}}]*}})? (\S+)$", metrics, re.MULTILINE)
        assert rows, fact.name
        return sum(map(float, rows))

    assert value("store_bytes") >= 60 * block
    assert value("tiering_write_bytes") > 0
    # The device holds 40 blocks: of the first prompt, 20 blocks of 32 tokens, something must come from the tier.
    assert value("external_hit_tokens") > 0
    assert value("load_bytes") > 0
    assert any((tmp_path / "kv").rglob("*.bin"))


def test_the_shell_hands_over_exactly_the_words(installed, tmp_path):
    written = launch(installed, "native+disk", disk_path=str(tmp_path / "a dir"))
    script = 'vllm() { for w in "$@"; do printf \'%s\\n\' "$w"; done; }; ' + written.command
    shown = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines() == list(written.argv[1:])
    assert Path(
        json.loads(shown.splitlines()[-1])["kv_connector_extra_config"]["secondary_tiers"][0]["root_dir"]
    )
