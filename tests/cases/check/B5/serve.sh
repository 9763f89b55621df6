vllm serve deepseek-ai/DeepSeek-V4-Flash --max-model-len 121344
