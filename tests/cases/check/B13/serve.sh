vllm serve Qwen/Qwen3-32B --kv-cache-dtype fp8 --max-model-len 100000
