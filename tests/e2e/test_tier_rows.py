"""Rows of the native host tier: vLLM's own mask of what its offloading scheduler stores."""

import itertools

import pytest

from warmset.plan.rows import TAILS, window_rows

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module", autouse=True)
def _vllm():
    pytest.importorskip("torch")
    import warmset.vllm.startup  # noqa: F401

    pytest.importorskip("vllm")


@pytest.mark.parametrize("context", [1_000, 8_192, 20_001])
def test_the_end_of_a_prompt_is_what_vllm_keeps_of_a_window(context):
    import torch
    from vllm.v1.core.single_type_kv_cache_manager import SlidingWindowManager
    from vllm.v1.kv_cache_interface import SlidingWindowSpec

    def kept(window, block, alignment, interval):
        blocks = context // block
        mask = SlidingWindowManager.reachable_block_mask(
            start_block=0,
            end_block=blocks,
            alignment_tokens=alignment,
            kv_cache_spec=SlidingWindowSpec(
                block_size=block, num_kv_heads=1, head_size=64, dtype=torch.bfloat16, sliding_window=window
            ),
            use_eagle=False,
            retention_interval=interval,
            reachable_boundaries=(context - 1,),
            final_segment_end_block=blocks,
        )
        return blocks if mask is None else sum(mask)

    for window, block, alignment in itertools.product((8, 128, 1024), (4, 16, 64), (16, 64, 256)):
        one = kept(window, block, alignment, 0)
        assert one <= window_rows(context, block, window, alignment, tails=True) <= TAILS * one
        # Dense retention is what versions until 0.29 did; their tail counts the window itself, a block more at most.
        dense, segments = (
            kept(window, block, alignment, None),
            window_rows(context, block, window, alignment, tails=False),
        )
        assert dense <= segments <= dense + context // alignment + 1


def test_sparse_retention_is_the_default():
    from vllm.config import CacheConfig

    assert CacheConfig().prefix_cache_retention_interval == 0
