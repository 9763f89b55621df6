"""Accelerators, host links and storage: facts as data."""
