python -m sglang.launch_server --model-path Qwen/Qwen3-8B --enable-metrics --enable-hierarchical-cache --hicache-size 4 --hicache-write-policy write_through --hicache-storage-backend mooncake
