"""How many rows of the native host tier one session takes: one row per group of layers and stored block.

vLLM's offloading scheduler stores every block of full attention. Of a window and of recurrent state it stores what
its version thinks can be hit again (`distributed/kv_transfer/kv_connector/v1/offloading/scheduler.py`; since 0.30 the
masks of `v1/core/single_type_kv_cache_manager.py`, with `--prefix-cache-retention-interval` at its default of 0).
"""

from warmset.geometry import Footprint
from warmset.geometry.page import Page
from warmset.servers import Engine

# An aligned state is stored where a prefill step ends; vLLM's default step on data-center devices.
PREFILL_STEP_TOKENS = 8192
# A session that comes back reads the tail of its last prompt and writes the tail of the new one: until the next
# return, both are younger than everything that waits for it.
TAILS = 2


def session_rows(footprint: Footprint, context_tokens: int, server: Engine) -> int:
    """Rows that one session of `context_tokens` takes, all groups of layers together."""
    pages = [table.first for table in footprint.tables]
    alignment = _alignment_tokens(footprint, server)
    partial = _keeps_prompt_ends(server) and any(page.kind == "state" for page in pages)
    rows = 0
    for page in pages:
        if page.kind == "cross":
            continue
        if page.kind == "state":
            rows += state_rows(context_tokens, server)
        elif page.is_window:
            assert page.window_tokens is not None
            rows += window_rows(
                context_tokens,
                page.block_tokens,
                page.window_tokens + page.retained_tokens,
                alignment,
                tails=_keeps_tails(server),
            )
        else:
            rows += context_tokens // _chunk_tokens(page, footprint)
            # The block that a prompt's end leaves unfilled is stored beside its state.
            rows += TAILS if partial else 0
    return rows


def window_rows(
    context_tokens: int, block_tokens: int, window_tokens: int, alignment_tokens: int | None, *, tails: bool
) -> int:
    """Rows of one group with a sliding window.

    `alignment_tokens` is where hits can end: the chunk of the full-attention groups, None where they differ. `tails`
    says that only the ends of prompts are kept (0.30 and newer); otherwise the tail of every aligned segment is.
    """
    blocks = context_tokens // block_tokens
    if alignment_tokens is None or alignment_tokens % block_tokens:
        return blocks
    if tails:
        return min(blocks, TAILS * -(-(window_tokens - 1) // block_tokens))
    segment = alignment_tokens // block_tokens
    tail = min(segment, -(-window_tokens // block_tokens))
    return blocks // segment * tail + min(tail, blocks % segment)


def state_rows(context_tokens: int, server: Engine) -> int:
    """Rows of one group with recurrent state: a snapshot at the end of each prefill step, or of prompts alone.

    A prompt's end is kept at its last block boundary and at its very end; of the last one only what was read matters.
    """
    if _keeps_prompt_ends(server):
        return 1 + 2
    return context_tokens // PREFILL_STEP_TOKENS + 1


def keeps_every_window_block(footprint: Footprint, server: Engine) -> bool:
    """Whether blocks that slid out of a window are stored too, as before vLLM 0.30 where all blocks are equal."""
    return not _keeps_tails(server) and any(table.first.is_window for table in footprint.tables)


def _keeps_tails(server: Engine) -> bool:
    return bool(server.default("native_tier_windows") == "prompt_ends")


def _keeps_prompt_ends(server: Engine) -> bool:
    return bool(server.default("native_tier_states") == "prompt_ends")


def _alignment_tokens(footprint: Footprint, server: Engine) -> int | None:
    """Where hits can end; None where the scheduler finds no single answer."""
    pages = [table.first for table in footprint.tables]
    full = {_chunk_tokens(page, footprint) for page in pages if page.is_full}
    if not full and _keeps_tails(server):
        return max((page.block_tokens for page in pages), default=None)
    return full.pop() if len(full) == 1 else None


def _chunk_tokens(page: Page, footprint: Footprint) -> int:
    return page.block_tokens * (footprint.deployment.dcp if page.dcp_sharded and page.is_full else 1)
