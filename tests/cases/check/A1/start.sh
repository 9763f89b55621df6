#!/bin/bash
# long prompts, so more memory for the cache
export LMCACHE_MAX_LOCAL_CPU_SIZE=5
vllm serve Qwen/Qwen2.5-7B \
    --max-model-len 32768 \
    --cpu-offload-gb 5 \
    --kv-transfer-config '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'
