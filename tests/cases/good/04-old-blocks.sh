pip install vllm==0.12.0
vllm serve Qwen/Qwen3-8B --kv-transfer-config '{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"block_size":64,"num_cpu_blocks":20000}}'
