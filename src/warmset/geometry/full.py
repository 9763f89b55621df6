"""Full attention (MHA, GQA, MQA): keeps every token of the context."""

from dataclasses import dataclass, replace

from warmset.geometry.deployment import Deployment
from warmset.geometry.heads import HeadCache
from warmset.geometry.kernels import Kernel
from warmset.geometry.page import Page


@dataclass(frozen=True, slots=True)
class FullAttention(HeadCache):
    """Grows with context without bound.

    `own_kernel` is set where the model brings its own kernels (MiniMax-M3 block-sparse layers).
    """

    own_kernel: Kernel | None = None

    def kernel(self, deployment: Deployment) -> Kernel:
        """The model's own kernel, else the platform's."""
        if self.own_kernel is not None and deployment.platform != "cpu":
            return self.own_kernel
        return HeadCache.kernel(self, deployment)

    def page(self, deployment: Deployment) -> Page:
        """The block on one rank."""
        return self.head_page("full", deployment, deployment.block_tokens)


@dataclass(frozen=True, slots=True)
class CrossAttention(HeadCache):
    """Keys and values of the encoder's output (Whisper): as long as the encoder, whatever the context."""

    encoder_tokens: int

    def page(self, deployment: Deployment) -> Page:
        """The block on one rank; its tokens are encoder tokens."""
        return replace(
            self.head_page("cross", deployment, deployment.block_tokens), encoder_tokens=self.encoder_tokens
        )
