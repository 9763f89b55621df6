export PYTHONHASHSEED=0
export LMCACHE_REMOTE_URL="redis://cache.internal:6379"
export LMCACHE_REMOTE_SERDE="naive"
export LMCACHE_MAX_LOCAL_CPU_SIZE=20
for port in 8000 8001; do
  vllm serve Qwen/Qwen3-8B --port $port --kv-transfer-config '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}' &
done
wait
