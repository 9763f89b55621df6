export LMCACHE_MAX_LOCAL_CPU_SIZE=100
vllm serve Qwen/Qwen2.5-72B-Instruct --pipeline-parallel-size=2 --distributed-executor-backend ray --kv-transfer-config='{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'
