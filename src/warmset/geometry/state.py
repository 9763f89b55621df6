"""Recurrent state: constant per sequence, whatever its length.

Shapes and types are those of vLLM 0.32 (`layers/mamba/mamba_utils.py`). A server keeps several copies per
sequence: one to read, one to write with prefix caching, and one per speculative token.
"""

from dataclasses import dataclass
from typing import Literal

from warmset.errors import InputError
from warmset.geometry.deployment import Deployment
from warmset.geometry.kernels import Kernel
from warmset.geometry.page import ELEMENT_BYTES, Page

Scan = Literal["mamba1", "mamba2", "gated_delta", "kda", "short_conv", "linear"]


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A convolution window and a recurrent matrix per head.

    `conv_dim` is split over TP ranks and holds `conv_rows` past inputs (one more per speculative token where
    `conv_speculates`). `recurrent` is the shape of the recurrent part, its first axis split over TP ranks.
    `groups` × `group_dim` × 2 more convolution channels belong to groups that are repeated when TP does not
    divide them. `recurrent_dtype` is the fixed type of the recurrent part, if the model fixes one.
    """

    layer: int
    scan: Scan
    conv_dim: int = 0
    conv_rows: int = 0
    conv_speculates: bool = True
    recurrent: tuple[int, ...] = ()
    groups: int = 0
    group_dim: int = 0
    recurrent_dtype: str | None = None

    kv_heads = None

    def page(self, deployment: Deployment) -> Page:
        """One copy of the state on one rank."""
        shapes, elements = self._parts(deployment)
        aligned = deployment.state_mode == "align"
        checkpoints = 1 if self.scan == "mamba2" else 0
        return Page(
            kind="state",
            block_tokens=deployment.state_block_tokens,
            padded_bytes=deployment.state_page_bytes,
            dcp_sharded=False,
            shapes=shapes,
            elements=elements,
            state_kind=self.scan,
            copies=(2 + checkpoints if aligned else 1) + deployment.speculative_tokens,
        )

    def kernel(self, deployment: Deployment) -> Kernel:
        """A state is not divided into tokens: any block size will do."""
        return Kernel(multiple_of=1)

    def formula(self, deployment: Deployment) -> str:
        """Bytes of one copy on one rank."""
        shapes, elements = self._parts(deployment)
        parts = (
            " × ".join(str(n) for n in shape) + f" × {ELEMENT_BYTES[element]} B"
            for shape, element in zip(shapes, elements, strict=True)
        )
        return " + ".join(parts)

    def _parts(self, deployment: Deployment) -> tuple[tuple[tuple[int, ...], ...], tuple[str, ...]]:
        tp = deployment.tp
        shapes: list[tuple[int, ...]] = []
        elements: list[str] = []
        if self.conv_dim:
            groups = self.groups if self.groups % tp == 0 else tp
            channels = self.conv_dim + 2 * groups * self.group_dim
            rows = self.conv_rows + (deployment.speculative_tokens if self.conv_speculates else 0)
            shapes.append((rows, self._split(channels, tp, "convolution channels")))
            elements.append(deployment.model_dtype)
        if self.recurrent:
            first, *rest = self.recurrent
            shapes.append((self._split(first, tp, "state heads"), *rest))
            elements.append(self._recurrent_element(deployment))
        return tuple(shapes), tuple(elements)

    def _recurrent_element(self, deployment: Deployment) -> str:
        if deployment.ssm_dtype != "auto":
            return deployment.ssm_dtype
        return self.recurrent_dtype or deployment.model_dtype

    def _split(self, size: int, tp: int, what: str) -> int:
        if size % tp:
            raise InputError(
                f"`--tp {tp}` does not divide the model's {size} {what}", hint=f"use a divisor of {size}"
            )
        return size // tp
