vllm serve google/gemma-4-31B-it -tp 2 --kv-transfer-config '{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"block_size":512,"cpu_bytes_to_use":26843545600}}'
