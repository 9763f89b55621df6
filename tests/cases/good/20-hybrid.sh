docker run --gpus all --ipc=host vllm/vllm-openai:v0.28.0 --model Qwen/Qwen3-Next-80B-A3B-Instruct -tp 4 --kv-offloading-size 192
