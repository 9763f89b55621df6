docker run --gpus all vllm/vllm-openai:v0.25.0 --model Qwen/Qwen3-8B --kv-offloading-size 32
