LMCACHE_CONFIG_FILE=lmcache.yaml vllm serve Qwen/Qwen3-8B -tp 4 --kv-transfer-config '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'
