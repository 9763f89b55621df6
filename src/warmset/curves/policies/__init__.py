"""Eviction policies by simulation at one capacity each; `POLICIES` lists them."""

from warmset.curves.policies.simulate import POLICIES, simulate

__all__ = ["POLICIES", "simulate"]
