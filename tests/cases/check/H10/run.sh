docker run --gpus all --shm-size 240g vllm/vllm-openai:v0.28.0 --model meta-llama/Llama-3.1-70B-Instruct --kv-offloading-size 200
