export LMCACHE_CHUNK_SIZE=256
export LMCACHE_LOCAL_CPU=True
export LMCACHE_MAX_LOCAL_CPU_SIZE=40.0
export PROMETHEUS_MULTIPROC_DIR=/tmp/lmcache_prometheus
vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 16384 --kv-transfer-config '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'
