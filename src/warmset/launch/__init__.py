"""Exactly what to type, per backend and target."""
