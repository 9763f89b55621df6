"""The whole circle on a real vLLM, on any machine."""
