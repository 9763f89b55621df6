lmcache server --l1-size-gb 60 --eviction-policy LRU &
vllm serve Qwen/Qwen3-8B --kv-offloading-backend lmcache --kv-offloading-size 1
