ARGS=(
  --model meta-llama/Llama-3.3-70B-Instruct
  --tensor-parallel-size 8      # one node
  --max-model-len 32768
  --kv-offloading-size 400
)
exec python3 -m vllm.entrypoints.openai.api_server "${ARGS[@]}"
