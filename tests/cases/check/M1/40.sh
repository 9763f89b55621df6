python -m sglang.launch_server --model-path Qwen/Qwen3-32B --enable-metrics --enable-hierarchical-cache --tp 4 --hicache-size 40
