"""Synthetic traffic: one file per kind, each a function from knobs and a seeded generator to requests."""
