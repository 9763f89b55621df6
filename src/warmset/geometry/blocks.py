"""The block size that the server really uses: the kernels' choice, then alignment of attention with state pages.

A port of `Platform.update_block_size_for_backend` of vLLM 0.32 and of the CPU platform's overrides.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from warmset.errors import InputError
from warmset.geometry.cache import Cache
from warmset.geometry.deployment import Deployment
from warmset.geometry.heads import HeadCache
from warmset.geometry.kernels import CPU, CPU_LATENT, DEFAULT_BLOCK_TOKENS, GENERIC, Kernel
from warmset.geometry.latent import Latent
from warmset.geometry.page import Page
from warmset.geometry.state import State

# FlashInfer's latent decode kernels need blocks of whole 128 tokens once they are split.
_LATENT_HYBRID_TOKENS = 128


def settle_blocks(
    caches: Sequence[Cache], deployment: Deployment, asked: int | None, max_context_tokens: int
) -> Deployment:
    """The deployment with its block sizes settled; `asked` is the operator's `--block-size`.

    Raises InputError for a size that no kernel of the model accepts.
    """
    attention = [cache for cache in caches if not isinstance(cache, State)]
    kernels = _distinct_kernels(attention, deployment)
    block = _first_choice(kernels, deployment, asked)
    states = [cache for cache in caches if isinstance(cache, State)]
    settled = replace(deployment, block_tokens=block, state_block_tokens=max_context_tokens)
    if states and attention:
        settled = _align_state_pages(attention, states, kernels, settled, max_context_tokens)
    if settled.skipped_layers and settled.platform == "cuda":
        settled = _align_skipped_pages(attention, settled)
    return settled


def _distinct_kernels(attention: Sequence[Cache], deployment: Deployment) -> list[Kernel]:
    kernels: list[Kernel] = []
    for cache in attention:
        kernel = cache.kernel(deployment)
        if kernel not in kernels:
            kernels.append(kernel)
    return kernels


def _first_choice(kernels: Sequence[Kernel], deployment: Deployment, asked: int | None) -> int:
    if deployment.platform == "cpu":
        fixed = next((kernel.preferred or kernel.smallest for kernel in kernels if kernel != CPU), None)
        return fixed or asked or CPU.default()
    if asked is not None:
        for kernel in kernels:
            # A dense kernel of fixed block sizes gives way to one that takes multiples of 16.
            needed = GENERIC if kernel.sizes and len(kernels) == 1 and kernel.smallest <= 64 else kernel
            if not needed.accepts(asked):
                step = needed.multiple_of or needed.smallest
                raise InputError(
                    f"`--block-size {asked}` is not a multiple of {step}, which the model's attention kernels need",
                    hint=f"use a multiple of {step}, or leave `--block-size` out",
                )
        return asked
    if not kernels:
        return DEFAULT_BLOCK_TOKENS
    if len(kernels) == 1:
        return kernels[0].default()
    if all(kernel.accepts(DEFAULT_BLOCK_TOKENS) for kernel in kernels):
        return DEFAULT_BLOCK_TOKENS
    common = sorted({math.lcm(*sizes) for sizes in product(*(kernel.offers for kernel in kernels))})
    return next(size for size in common if all(kernel.accepts(size) for kernel in kernels))


def _align_state_pages(
    attention: Sequence[Cache],
    states: Sequence[State],
    kernels: Sequence[Kernel],
    deployment: Deployment,
    max_context_tokens: int,
) -> Deployment:
    """Raise the attention block until its page holds a state, then pad the state to that page."""
    token_bytes = _token_bytes(attention[0], deployment)
    state_bytes = max(state.page(deployment).unpadded_bytes for state in states)
    step = max(kernels[0].smallest, deployment.block_tokens)
    if isinstance(attention[0], Latent):
        step = max(step, _LATENT_HYBRID_TOKENS)
    block = step * -(-state_bytes // (step * token_bytes))
    common = math.lcm(*(kernel.smallest for kernel in kernels))
    block = max(common * -(-block // common), deployment.block_tokens)
    if CPU_LATENT in kernels and block != CPU_LATENT.smallest:
        raise InputError(
            "the model mixes latent attention with recurrent state, which vLLM's CPU build cannot run",
            hint="use `--platform cuda`",
        )
    page_bytes = block * token_bytes
    return replace(
        deployment,
        block_tokens=block,
        state_block_tokens=block if deployment.state_mode == "align" else max_context_tokens,
        state_page_bytes=page_bytes if page_bytes != state_bytes else None,
    )


def _align_skipped_pages(attention: Sequence[Cache], deployment: Deployment) -> Deployment:
    """Raise the block until a quantized page covers the page of a layer that stays unquantized.

    vLLM measures the quantized page with the first layer's backend, which is an unquantized layer's: it
    counts one byte per element, not the packed size.
    """
    first = attention[0]
    if not isinstance(first, HeadCache):
        return deployment
    plain_bytes = _token_bytes(first, replace(deployment, kv_dtype="auto"))
    counted_bytes = _token_bytes(first, replace(deployment, kv_dtype="fp8", skipped_layers=frozenset()))
    step = max(GENERIC.smallest, deployment.block_tokens)
    needed = max(plain_bytes * GENERIC.smallest, deployment.state_page_bytes or 0)
    block = max(deployment.block_tokens, step * -(-needed // (step * counted_bytes)))
    return replace(deployment, block_tokens=block, skipped_page_bytes=block * counted_bytes)


def _token_bytes(cache: Cache, deployment: Deployment) -> int:
    page: Page = cache.page(replace(deployment, block_tokens=1, skipped_page_bytes=None))
    return page.unpadded_bytes if page.block_tokens == 1 else page.unpadded_bytes // page.block_tokens
