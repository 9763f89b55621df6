python -m sglang.launch_server --model-path Qwen/Qwen3-32B --enable-metrics --enable-hierarchical-cache --hicache-ratio 1.0 --hicache-storage-backend mooncake
