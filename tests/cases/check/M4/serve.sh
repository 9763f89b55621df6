python -m sglang.launch_server --model-path Qwen/Qwen3.5-122B-A10B --enable-metrics --enable-hierarchical-cache --hicache-size 100 --tp 2
