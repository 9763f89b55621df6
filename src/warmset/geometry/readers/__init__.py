"""One reader per family of models: from a configuration to the caches of its layers."""
