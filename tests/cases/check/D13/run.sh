export LMCACHE_REMOTE_URL=lm://h:8100
export LMCACHE_LOCAL_CPU=False
export LMCACHE_CHUNK_SIZE=256
CUDA_VISIBLE_DEVICES=0 vllm serve Qwen/Qwen3-8B --max-model-len 1024 --port 8000 --kv-transfer-config '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}' &
CUDA_VISIBLE_DEVICES=1 vllm serve Qwen/Qwen3-8B --max-model-len 1024 --port 8001 --kv-transfer-config '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}' &
wait
