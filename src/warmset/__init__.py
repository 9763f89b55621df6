"""warmset makes KV-cache offloading on a self-hosted LLM server a measured decision."""

__version__ = "0.1.0"
