vllm serve openai/gpt-oss-120b --tensor-parallel-size 4 --kv-transfer-config \
  '{"kv_connector": "OffloadingConnector", "kv_role": "kv_both",
    "kv_load_failure_policy": "recompute",
    "kv_connector_extra_config": {"cpu_bytes_to_use": 137438953472}}'
