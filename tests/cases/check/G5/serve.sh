LMCACHE_CHUNK_SIZE=128 LMCACHE_LOCAL_DISK=/workspace/lmcache LMCACHE_MAX_LOCAL_DISK_SIZE=40 vllm serve Qwen/Qwen3-8B --kv-transfer-config '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'
