#!/usr/bin/env bash
set -euo pipefail
MODEL=${MODEL:-Qwen/Qwen3-32B}
vllm serve "$MODEL" \
  --tensor-parallel-size 2 \
  --kv-offloading-backend native \
  --kv-offloading-size 128 \
  --port 8000
