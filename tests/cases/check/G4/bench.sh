vllm bench serve --model Qwen/Qwen3-4B --dataset-name random --random-input-len 8000
