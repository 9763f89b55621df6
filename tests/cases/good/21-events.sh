vllm serve Qwen/Qwen3-8B --kv-offloading-size 32 --kv-events-config '{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:5557","topic":"kv@pod@Qwen/Qwen3-8B"}'
