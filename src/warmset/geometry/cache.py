"""What every kind of per-layer cache has in common."""

from typing import Protocol

from warmset.geometry.deployment import Deployment
from warmset.geometry.kernels import Kernel
from warmset.geometry.page import Page


class Cache(Protocol):
    """One cache of one decoder layer: a model fact, independent of any deployment.

    A layer may own several caches (an attention and a state, a latent and its indexer) or none.
    """

    @property
    def layer(self) -> int:
        """Index of the decoder layer that owns it; draft layers count on after the model's own."""

    @property
    def kv_heads(self) -> int | None:
        """KV heads that tensor parallelism splits; None where it splits none."""

    def kernel(self, deployment: Deployment) -> Kernel:
        """The attention backend that reads it."""

    def page(self, deployment: Deployment) -> Page:
        """The block of this cache on one rank of `deployment`."""

    def formula(self, deployment: Deployment) -> str:
        """Bytes on one rank, per token (or per sequence for a state), with the numbers filled in."""
