KV_CONFIG='{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"cpu_bytes_to_use":64424509440}}'
numactl --cpunodebind=0 --membind=0 vllm serve Qwen/Qwen3-14B --kv-transfer-config "$KV_CONFIG"
