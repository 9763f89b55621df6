vllm serve meta-llama/Llama-3.1-70B-Instruct -tp 4 --kv-cache-memory-bytes 60G --kv-offloading-size 64
