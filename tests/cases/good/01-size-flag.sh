vllm serve meta-llama/Llama-3.1-8B-Instruct --kv-offloading-size 40
