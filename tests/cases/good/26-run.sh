docker run -d --name llm --gpus '"device=0,1"' --shm-size 80g --ulimit memlock=-1 \
  -v ~/.cache/huggingface:/root/.cache/huggingface -e HF_TOKEN=$HF_TOKEN -p 8000:8000 --restart unless-stopped \
  vllm/vllm-openai:v0.29.0 --model Qwen/Qwen3-32B -tp 2 --kv-offloading-size 64
