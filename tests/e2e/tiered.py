"""A vLLM with a host tier on any device and warmset's tier below it."""

from typing import Any


def transfer_config(cpu_bytes: int, store: str, **tier: Any) -> dict[str, Any]:
    """`--kv-transfer-config`; `tier` are the lower tier's further keys."""
    lower = {"type": "WarmsetTier", "module_path": "warmset.vllm.tier", "store": store, **tier}
    return {
        "kv_connector": "OffloadingConnector",
        "kv_role": "kv_both",
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {
            "spec_name": "AnyDeviceOffloadingSpec",
            "spec_module_path": "warmset.vllm.offloading",
            "cpu_bytes_to_use": cpu_bytes,
            "secondary_tiers": [lower],
        },
    }
