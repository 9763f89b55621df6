vllm serve Qwen/Qwen3-8B --kv-offloading-backend native --kv-offloading-size 32 --enable-sleep-mode
