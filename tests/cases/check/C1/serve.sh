export LMCACHE_MAX_LOCAL_CPU_SIZE=50
vllm serve meta-llama/Meta-Llama-3-8B-Instruct --tensor-parallel-size 8 --kv-transfer-config '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'
