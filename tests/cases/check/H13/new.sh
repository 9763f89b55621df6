docker run --gpus all vllm/vllm-openai:v0.28.0 --model Qwen/Qwen3-8B --kv-offloading-size 32
