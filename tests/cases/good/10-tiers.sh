export PYTHONHASHSEED=42
vllm serve Qwen/Qwen3-32B -tp 2 \
  --kv-transfer-config '{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_load_failure_policy":"recompute","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":107374182400,"secondary_tiers":[{"type":"fs","root_dir":"/mnt/nvme/kv","n_read_threads":32,"n_write_threads":8}]}}'
