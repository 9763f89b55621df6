vllm bench serve --model Qwen/Qwen3-8B --dataset-name prefix_repetition --prefix-repetition-num-prefixes 10 --num-prompts 500
