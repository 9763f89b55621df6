vllm serve Qwen/Qwen3-8B --kv-transfer-config '{"kv_connector":"LMCacheConnector","kv_role":"kv_both"}'
