vllm serve Qwen/Qwen3-Next-80B-A3B-Instruct --kv-offloading-size 64 --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
