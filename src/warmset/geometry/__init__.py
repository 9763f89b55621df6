"""What a model's KV cache costs, in bytes."""
