vllm serve meta-llama/Llama-3.1-70B-Instruct -tp 4 --kv-offloading-backend lmcache --kv-offloading-size 100
