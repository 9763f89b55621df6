"""Which layers share a block table, and what one block id costs.

A port of the rules of vLLM 0.32 (`v1/core/kv_cache_utils.py`: `get_kv_cache_groups` and what it calls). Every
group takes its blocks from one pool, so one block id costs as much as the widest group needs.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from warmset.errors import InputError
from warmset.geometry.packing import packed_groups
from warmset.geometry.page import Kind, Page


@dataclass(frozen=True, slots=True)
class Group:
    """Layers (by their index in the model's order of caches) that share a block table.

    `mixed` marks a group whose layers have pages of different sizes. `first` stands for the group: all its
    pages agree in block size and kind of growth.
    """

    members: tuple[int, ...]
    pages: tuple[Page, ...]
    first: Page
    mixed: bool = False

    def only(self, members: frozenset[int]) -> "Group":
        """The group's part on one pipeline rank; its table has as many blocks even if no layer is left in it."""
        kept = [(m, p) for m, p in zip(self.members, self.pages, strict=True) if m in members]
        return replace(self, members=tuple(m for m, _ in kept), pages=tuple(p for _, p in kept))


def group_of(members: Sequence[int], pages: Sequence[Page], *, mixed: bool = False) -> Group:
    """The group of `members`, indices into `pages`."""
    chosen = tuple(pages[m] for m in members)
    return Group(tuple(members), chosen, chosen[0], mixed)


def group_pages(pages: Sequence[Page], *, block_outermost: bool, hybrid_manager: bool) -> tuple[Group, ...]:
    """Group the caches of a whole model, given in its own order.

    `block_outermost` is the memory layout that packs pages of different sizes side by side.
    Raises InputError where vLLM refuses to start.
    """
    pages = list(pages)
    if not hybrid_manager:
        pages = promote_local(pages)
    if not pages:
        return ()
    everything = tuple(range(len(pages)))
    if mergeable(pages):
        return (group_of(everything, pages),)
    if same_growth(pages):
        return (group_of(everything, pages, mixed=True),)
    if block_outermost and len({page.bytes for page in pages}) > 1:
        return tuple(group_of(members, pages, mixed=True) for members in packed_groups(pages, same_growth))
    unified = unify_page_bytes(pages)
    if unified is None:
        return (_all_full(pages),)
    return _repeating_groups(unified)


def pool_bytes_per_block(groups: Sequence[Group], *, block_outermost: bool) -> int:
    """Bytes of one block id: those of the widest group."""
    if not block_outermost:
        return max(sum(page.stride_bytes for page in group.pages) for group in groups)
    widest = max(sum(page.bytes for page in group.pages) for group in groups)
    step = math.lcm(*(page.alignment_bytes for group in groups for page in group.pages))
    return -(-widest // step) * step


def tp_replicas(groups: Sequence[Group], tp: int, dcp: int) -> int:
    """How many consecutive TP ranks hold the same bytes in every layer."""
    copies = [
        1
        if page.max_tp_shards is None or (page.dcp_sharded and dcp > 1)
        else max(1, tp // page.max_tp_shards)
        for group in groups
        for page in group.pages
    ]
    return reduce(math.gcd, copies, tp) if copies else 1


def mergeable(pages: Sequence[Page]) -> bool:
    """Whether one page can stand for all: equal, or full attention that differs in its mask only."""
    first = pages[0]
    if first.kind != "full":
        return all(page == first for page in pages)
    if any(_unmasked(page) != _unmasked(first) for page in pages):
        return False
    windows = {page.window_tokens for page in pages} - {None}
    chunks = {page.chunk_tokens for page in pages} - {None}
    return len(windows) + len(chunks) <= 1


def same_growth(pages: Sequence[Page]) -> bool:
    """Whether all layers need the same number of blocks at any length, whatever their page sizes."""
    first = pages[0]
    if len({page.block_tokens for page in pages}) > 1 or len({page.dcp_sharded for page in pages}) > 1:
        return False
    if first.is_full:
        return all(page.is_full for page in pages)
    if first.kind == "window":
        return all(page.is_window and page.window_tokens == first.window_tokens for page in pages)
    if first.kind == "window_latent":
        return all(page.kind == first.kind and page.window_tokens == first.window_tokens for page in pages)
    if first.kind == "chunk":
        return all(page.kind == "chunk" and page.chunk_tokens == first.chunk_tokens for page in pages)
    if first.kind == "state":
        return all(
            page.kind == "state" and page.copies == first.copies and page.bytes == first.bytes
            for page in pages
        )
    return all(page.kind == first.kind for page in pages)


def promote_local(pages: Sequence[Page]) -> list[Page]:
    """Without the hybrid manager, window and chunk layers beside full ones are allocated like full ones."""
    pages = list(pages)
    if not pages or mergeable(pages) or same_growth(pages):
        return pages
    full_blocks = {page.block_tokens for page in pages if page.is_full}
    if full_blocks and any(page.is_window or page.kind == "chunk" for page in pages):
        block = full_blocks.pop() if len(full_blocks) == 1 else None
        pages = [_promoted(page, block) for page in pages]
    if not (mergeable(pages) or same_growth(pages)):
        kinds = ", ".join(sorted({page.kind for page in pages}))
        raise InputError(
            f"the model needs the hybrid cache manager: its layers ({kinds}) cannot share one block table",
            hint="drop `--no-hybrid-manager`",
        )
    return pages


def unify_page_bytes(pages: Sequence[Page]) -> list[Page] | None:
    """Give all layers pages of one size: larger blocks where that divides, else padding; None if a latent can't."""
    largest = max(page.bytes for page in pages)
    unified = []
    for page in pages:
        if page.bytes == largest:
            unified.append(page)
        elif page.kind == "state":
            unified.append(replace(page, padded_bytes=largest))
        elif largest % page.bytes == 0:
            unified.append(page.with_block_tokens(page.block_tokens * (largest // page.bytes)))
        elif page.kind == "latent":
            return None
        else:
            unified.append(replace(page, padded_bytes=largest))
    return unified


def _repeating_groups(pages: Sequence[Page]) -> tuple[Group, ...]:
    """Split the layers of each kind into groups of about as many layers as the rarest kind has."""
    kinds: dict[Page, list[int]] = {}
    for index, page in enumerate(pages):
        kinds.setdefault(page, []).append(index)
    buckets: list[tuple[list[int], list[Page]]] = []
    for page, members in kinds.items():
        for bucket_members, bucket_pages in buckets:
            if mergeable([*bucket_pages, page]):
                bucket_members.extend(members)
                bucket_pages.append(page)
                break
        else:
            buckets.append((list(members), [page]))
    counts = [len(members) for members, _ in buckets]
    size = max(counts) if max(counts) < min(counts) * 1.5 else min(counts)
    groups: list[Group] = []
    for members, _ in buckets:
        ways = -(-len(members) // size)
        groups.extend(group_of(members[way::ways], pages) for way in range(ways))
    return tuple(groups)


def _all_full(pages: Sequence[Page]) -> Group:
    """Latent layers beside window layers whose pages do not fit together: all are allocated like full ones."""
    if not any(page.kind in ("window_latent", "chunk") for page in pages) and any(
        p.kind == "window" for p in pages
    ):
        promoted = promote_local(pages)
        if same_growth(promoted):
            return group_of(range(len(promoted)), promoted, mixed=True)
    sizes = ", ".join(f"{size:,}" for size in sorted(Counter(page.bytes for page in pages)))
    raise InputError(
        f"the layers' pages ({sizes} bytes) cannot share one pool at this block size",
        hint="try another `--block-size`; vLLM refuses this one too",
    )


def _promoted(page: Page, block_tokens: int | None) -> Page:
    if not (page.is_window or page.kind == "chunk"):
        return page
    block = block_tokens or page.block_tokens
    padded = page.padded_bytes
    if padded is not None:
        padded = max(padded, page.unpadded_bytes * block // page.block_tokens)
    kind: Kind = "latent" if page.kind == "window_latent" else "full"
    return replace(page, kind=kind, block_tokens=block, padded_bytes=padded, retained_tokens=0)


def _unmasked(page: Page) -> Page:
    return replace(page, window_tokens=None, chunk_tokens=None)
