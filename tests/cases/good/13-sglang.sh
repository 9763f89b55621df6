python3 -m sglang.launch_server --model-path Qwen/Qwen3-32B --tp 4 \
  --enable-hierarchical-cache --hicache-ratio 2 --hicache-write-policy write_through --page-size 64 --enable-metrics
