vllm serve Qwen/Qwen3-8B --kv-offloading-size 24
