LMCACHE_MAX_LOCAL_CPU_SIZE=1 vllm serve Qwen/Qwen2.5-0.5B-Instruct --max-model-len 9300 --max-num-seqs 10 --kv-transfer-config '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'
