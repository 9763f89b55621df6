python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-R1-Distill-Llama-70B --tp-size 8 --enable-hierarchical-cache --hicache-size 60 \
  --hicache-io-backend kernel --hicache-mem-layout page_first --hicache-storage-backend hf3fs --hicache-storage-prefetch-policy wait_complete --enable-metrics
