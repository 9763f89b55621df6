export DYN_KVBM_CPU_CACHE_GB=4 DYN_KVBM_DISK_CACHE_GB=16
python -m dynamo.vllm --model Qwen/Qwen3-8B --kv-cache-memory-bytes 40000000000 --kv-transfer-config '{"kv_connector":"DynamoConnector","kv_role":"kv_both","kv_connector_module_path":"kvbm.vllm_integration.connector","kv_load_failure_policy":"recompute"}'
