python -m sglang.launch_server --model-path Qwen/Qwen3-32B --enable-metrics --enable-hierarchical-cache --hicache-storage-backend file
