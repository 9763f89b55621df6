vllm serve Qwen/Qwen3-235B-A22B --tensor-parallel-size 16 --nnodes 2 \
 --kv-transfer-config '{"kv_connector":"SimpleCPUOffloadConnector","kv_role":"kv_both","kv_connector_extra_config":{"cpu_bytes_to_use_per_rank":220000000000}}'
