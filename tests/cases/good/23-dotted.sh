vllm serve Qwen/Qwen3-8B --kv-transfer-config.kv_connector OffloadingConnector --kv-transfer-config.kv_role kv_both --kv-transfer-config.kv_connector_extra_config.cpu_bytes_to_use 34359738368
