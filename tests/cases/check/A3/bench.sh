export LMCACHE_MAX_LOCAL_CPU_SIZE=200.0   # 50GB
vllm bench throughput --model nvidia/Llama-3.1-70B-Instruct-FP8 --dataset-name burstgpt \
  --cpu-offload-gb 40 --kv-transfer-config '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'
