LMCACHE_LOCAL_DISK=file:///mnt/nvme/ LMCACHE_MAX_LOCAL_DISK_SIZE=50 vllm serve Qwen/Qwen3-8B --kv-transfer-config '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'
