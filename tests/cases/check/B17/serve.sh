python -m sglang.launch_server --model-path zai-org/GLM-5.1 --tp 8 --enable-hierarchical-cache --hicache-size 40 --enable-metrics
