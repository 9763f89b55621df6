lmcache server --l1-size-gb 100 --eviction-policy LRU --chunk-size 256 &
sleep 5
vllm serve Qwen/Qwen3-8B --kv-transfer-config '{"kv_connector":"LMCacheMPConnector","kv_role":"kv_both","kv_connector_extra_config":{"lmcache.mp.host":"tcp://localhost","lmcache.mp.port":5555}}'
