vllm serve zai-org/GLM-5.3-Flash -tp 2 --kv-offloading-size 64
