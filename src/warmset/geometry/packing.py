"""Grouping where pages of different sizes lie side by side within a block (DeepSeek V4).

A port of `_get_packed_kv_cache_groups` of vLLM 0.32.
"""

from collections.abc import Callable, Sequence

from warmset.geometry.page import Page


def packed_groups(
    pages: Sequence[Page], same_growth: Callable[[Sequence[Page]], bool]
) -> tuple[tuple[int, ...], ...]:
    """Members of each group, by index into `pages`.

    Layers that grow alike form a bucket. A bucket with as many layers of each page size is a repeating
    pattern and may be split; the others stay whole, except states, which fill what a block already holds.
    """
    buckets: list[list[int]] = []
    for index, page in enumerate(pages):
        for bucket in buckets:
            if same_growth([pages[bucket[0]], page]):
                bucket.append(index)
                break
        else:
            buckets.append([index])
    by_size = [_by_size(bucket, pages) for bucket in buckets]
    balanced = [len({len(members) for members in sizes.values()}) == 1 for sizes in by_size]
    depth = [max(len(members) for members in sizes.values()) for sizes in by_size]
    floor = max((d for d, b, s in zip(depth, balanced, by_size, strict=True) if b and len(s) > 1), default=0)
    repeats = least_padding([d for d, b in zip(depth, balanced, strict=True) if b], floor) if floor else None

    def is_state(bucket: list[int]) -> bool:
        first = pages[bucket[0]]
        return first.kind == "state" or (repeats is None and first.is_window)

    def ways(index: int) -> int:
        return -(-depth[index] // repeats) if balanced[index] and repeats is not None else 1

    def widest(sizes: dict[int, list[int]], split: int) -> int:
        return sum(-(-len(members) // split) * size for size, members in sizes.items())

    anchor = max(
        widest(sizes, len(bucket) if is_state(bucket) else ways(index))
        for index, (bucket, sizes) in enumerate(zip(buckets, by_size, strict=True))
    )
    groups: list[tuple[int, ...]] = []
    for index, (bucket, sizes) in enumerate(zip(buckets, by_size, strict=True)):
        split = ways(index)
        if is_state(bucket):
            per_block = max(anchor // pages[bucket[0]].bytes, 1)
            split = max(split, -(-len(bucket) // per_block))
        if split == 1:
            groups.append(tuple(bucket))
            continue
        repeated = list(zip(*sizes.values(), strict=False))
        groups.extend(tuple(m for repeat in repeated[way::split] for m in repeat) for way in range(split))
    return tuple(groups)


def least_padding(counts: Sequence[int], floor: int) -> int:
    """The step, at least `floor`, that rounds all counts up with the least padding; the largest of equals."""
    top = max(counts)
    if floor > top:
        return floor
    return min(
        range(max(floor, 1), top + 1), key=lambda step: (sum(-count % step for count in counts), -step)
    )


def _by_size(bucket: Sequence[int], pages: Sequence[Page]) -> dict[int, list[int]]:
    sizes: dict[int, list[int]] = {}
    for member in bucket:
        sizes.setdefault(pages[member].bytes, []).append(member)
    return sizes
