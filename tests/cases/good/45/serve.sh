LMCACHE_CONFIG_FILE=lmcache_config.yaml vllm serve Qwen/Qwen3-8B --kv-transfer-config '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'
