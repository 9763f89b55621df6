vllm serve Qwen/Qwen3-Next-80B-A3B-Instruct -tp 4 --kv-offloading-size 384
