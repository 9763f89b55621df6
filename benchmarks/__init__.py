"""Benchmarks: `python -m benchmarks`; never part of the tests."""
