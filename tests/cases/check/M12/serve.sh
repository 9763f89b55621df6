python -m sglang.launch_server --model-path Qwen/Qwen3-32B --enable-metrics --enable-hierarchical-cache --hicache-ratio 2 --hicache-size 16 --hicache-storage-backend mooncake
