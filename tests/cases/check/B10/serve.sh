vllm serve zai-org/GLM-5 -tp 8 -pp 2 --max-model-len 200000 --kv-offloading-size 256
