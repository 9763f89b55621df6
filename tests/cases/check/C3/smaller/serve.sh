LMCACHE_CONFIG_FILE=/etc/lmcache/lmcache.yaml vllm serve Qwen/Qwen2.5-72B-Instruct -tp 4 --max-model-len 20000 --kv-transfer-config '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'
