# warmset: ignore[weights-not-kv] the 70B model does not fit two 40 GB cards
vllm serve meta-llama/Llama-3.1-70B-Instruct -tp 2 --cpu-offload-gb 30
