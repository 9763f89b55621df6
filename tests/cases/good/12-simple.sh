VLLM_USE_SIMPLE_KV_OFFLOAD=1 vllm serve Qwen/Qwen3-8B --kv-offloading-size 24
