PYTHONHASHSEED=0 LMCACHE_REMOTE_URL=lm://h:8100 vllm serve Qwen/Qwen3-8B --kv-transfer-config '("kv_connector":"LMCacheConnectorV1","kv_role":"kv_both")'
