vllm bench serve --dataset-name prefix_repetition --prefix-repetition-prefix-len 500 --prefix-repetition-suffix-len 500 --prefix-repetition-num-prefixes 500 --num-prompts 24 --max-concurrency 8
