export LMCACHE_CONFIG_FILE=cpu-offload.yaml
export LMCACHE_MAX_LOCAL_CPU_SIZE=393.216
export LMCACHE_MAX_LOCAL_DISK_SIZE=600.0
vllm serve Qwen/Qwen3-4B --kv-transfer-config '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'
