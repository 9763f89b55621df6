vllm serve M -tp 4 --block-size 256 --kv-transfer-config '{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"block_size":256,"cpu_bytes_to_use":600000000000}}'
