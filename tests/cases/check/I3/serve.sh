vllm serve Qwen3.5-122B-A10B-AWQ -tp 4 --kv_offloading_backend native --kv_offloading_size 80 --disable-hybrid-kv-cache-manager
