vllm serve mistralai/Mistral-Small-3.1-24B-Instruct-2503 --gpu-memory-utilization 0.95 --max-num-seqs 64 --enable-prefix-caching
