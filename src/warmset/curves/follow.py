"""An LRU stack of followed blocks, fed with samples in order, in memory bounded by the blocks followed."""

import numpy as np
from numpy.typing import NDArray

from warmset.curves._jit import Array, jit
from warmset.curves.draw import HOT, Sample, mix

_MIN_SLOTS = 1 << 16


class FollowedStack:
    """The stack pass of `exact`, over blocks of unequal weight and without an end.

    A hot block stands for itself, another for `weight` blocks. Positions are in blocks; hits are kept in
    bins of `weight` blocks, each hit spread evenly over the blocks that it stands for.
    At most `max_blocks` blocks are remembered: beyond, the least recent are forgotten, and a later read
    of one is a miss. `forgot` tells whether that happened.
    """

    def __init__(self, weight: int, group: int | None, max_blocks: int) -> None:
        self._weight, self._group, self._max_blocks = weight, group, max_blocks
        self._keys = np.zeros(1 << 12, dtype=np.int64)
        self._last = np.full(1 << 12, -1, dtype=np.int64)
        self._weights = np.zeros(1 << 12, dtype=np.int64)
        self._used = 0
        self._tree = np.zeros(_MIN_SLOTS + 1, dtype=np.int64)
        self._held = np.zeros(_MIN_SLOTS, dtype=np.int64)
        self._next_slot = 0
        self._cold = np.zeros(1 << 10, dtype=np.int64)
        self._hot = np.zeros(1 << 10, dtype=np.int64)
        self.cold_tokens = 0
        self.forgot = False
        self.blocks = 0
        self.cold_blocks = 0
        self.accesses = 0

    def feed(self, sample: Sample, count_from: int) -> None:
        """Add the requests of `sample`; those before index `count_from` warm the cache only."""
        mine = np.ones(len(sample.kinds), dtype=bool)
        if self._group is not None:
            mine = (sample.kinds == HOT) | (sample.kinds == self._group)
        kept = np.flatnonzero(mine)
        offsets = np.searchsorted(kept, sample.offsets)
        ids, tokens, kinds = sample.block_ids[kept], sample.tokens[kept], sample.kinds[kept]
        self.accesses += len(kept)
        counted = slice(int(offsets[min(count_from, len(offsets) - 1)]), None)
        self.cold_tokens += int(tokens[counted][kinds[counted] != HOT].sum())
        done, requests = 0, len(offsets) - 1
        while done < requests:
            if self._next_slot >= len(self._held):
                self._compact()
            # As many requests as the slots take, and at most as many new blocks as the table takes.
            room = len(self._keys) // 2 - self._used
            if room < len(self._keys) // 8:
                self._grow(len(self._keys) // 4)
                continue
            until = min(requests, done + len(self._held) - self._next_slot)
            until = min(until, int(np.searchsorted(offsets, offsets[done] + room, side="right")) - 1)
            if until <= done:
                self._grow(int(offsets[done + 1] - offsets[done]))
                continue
            piece = offsets[done : until + 1]
            held = int(self._held[: self._next_slot].sum()) + int(
                np.where(kinds[piece[0] : piece[-1]] == HOT, 1, self._weight).sum()
            )
            bins = held // self._weight + 3
            if bins > len(self._cold):
                more = max(bins, 2 * len(self._cold)) - len(self._cold)
                self._cold = np.concatenate((self._cold, np.zeros(more, np.int64)))
                self._hot = np.concatenate((self._hot, np.zeros(more, np.int64)))
            new, new_cold = _pass(
                ids, tokens, kinds, piece, max(0, count_from - done), self._weight, self._next_slot,
                self._keys, self._last, self._weights, self._tree, self._held, self._cold, self._hot,
            )  # fmt: skip
            self._used += new
            self.blocks += new
            self.cold_blocks += new_cold
            self._next_slot += until - done
            done = until

    def hits(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Cumulative hit tokens at capacities 0, weight, 2·weight …: of hot blocks, and of the others."""
        filled = np.flatnonzero(self._cold + self._hot)
        end = int(filled[-1]) + 1 if len(filled) else 0
        hot, cold = (
            np.concatenate(([0.0], np.cumsum(bins[:end], dtype=np.float64)))
            for bins in (self._hot, self._cold)
        )
        return hot, cold / self._weight

    def _compact(self) -> None:
        """Renumber the requests that still hold blocks, and forget the least recent beyond the bound."""
        held = self._held[: self._next_slot]
        live = np.flatnonzero(held)
        used = self._last >= 0
        blocks_of = np.bincount(self._last[used], minlength=self._next_slot)[live]
        recent = np.cumsum(blocks_of[::-1])[::-1] <= self._max_blocks
        self.forgot = self.forgot or not bool(recent.all())
        live = live[recent]
        new_slot = np.full(self._next_slot, -1, dtype=np.int64)
        new_slot[live] = np.arange(len(live))
        size = max(_MIN_SLOTS, 2 * len(live))
        self._held = np.zeros(size, dtype=np.int64)
        self._held[: len(live)] = held[live]
        self._tree = np.zeros(size + 1, dtype=np.int64)
        _build(self._held, self._tree)
        self._next_slot = len(live)
        self._last[used] = new_slot[self._last[used]]
        self._rehash(len(self._keys))

    def _grow(self, more: int) -> None:
        if self._used > self._max_blocks:
            self._compact()
        size = len(self._keys)
        while size // 2 < self._used + more:
            size *= 2
        self._rehash(size)

    def _rehash(self, size: int) -> None:
        used = self._last >= 0
        keys, last, weights = self._keys[used], self._last[used], self._weights[used]
        self._keys = np.zeros(size, dtype=np.int64)
        self._last = np.full(size, -1, dtype=np.int64)
        self._weights = np.zeros(size, dtype=np.int64)
        self._used = len(keys)
        _insert(keys, last, weights, self._keys, self._last, self._weights)


@jit
def _build(held: Array, tree: Array) -> None:
    for i in range(1, len(tree)):
        tree[i] += held[i - 1]
        above = i + (i & -i)
        if above < len(tree):
            tree[above] += tree[i]


@jit
def _place(block: int, keys: Array, last: Array) -> int:
    size = len(keys)
    place = np.int64(mix(np.uint64(block) + np.uint64(0x9E3779B97F4A7C15)) & np.uint64(size - 1))
    while last[place] >= 0 and keys[place] != block:
        place = (place + 1) & (size - 1)
    return int(place)


@jit
def _insert(
    keys: Array,
    last: Array,
    weights: Array,
    to_keys: Array,
    to_last: Array,
    to_weights: Array,
) -> None:
    for i in range(len(keys)):
        place = _place(keys[i], to_keys, to_last)
        to_keys[place], to_last[place], to_weights[place] = keys[i], last[i], weights[i]


@jit
def _pass(
    ids: Array,
    tokens: Array,
    kinds: Array,
    offsets: Array,
    count_from: int,
    weight: int,
    first_slot: int,
    keys: Array,
    last: Array,
    weights: Array,
    tree: Array,
    held: Array,
    cold: Array,
    hot: Array,
) -> tuple[int, int]:
    """Run requests through the stack; returns how many blocks were new, and how many of those not hot."""
    new = 0
    new_cold = 0
    held_by_all = 0
    for slot in range(first_slot):
        held_by_all += held[slot]
    slots = len(held)
    for r in range(len(offsets) - 1):
        slot = first_slot + r
        walked = 0
        k = offsets[r]
        while k < offsets[r + 1]:
            place = _place(ids[k], keys, last)
            q = last[place]
            if q == slot:  # an id twice in one request; it is at the top already
                k += 1
                continue
            if q < 0:
                own = 1 if kinds[k] == 0 else weight
                keys[place], last[place], weights[place] = ids[k], slot, own
                new += 1
                new_cold += kinds[k] != 0
                walked += own
                k += 1
                continue
            newer = held_by_all
            node = q + 1
            while node > 0:
                newer -= tree[node]
                node &= node - 1
            run = 0
            while True:
                own = weights[place]
                last[place] = slot
                if r >= count_from:
                    position = max(0, newer + walked + run)
                    b = min(position // weight, len(cold) - 2)
                    if kinds[k] == 0:
                        hot[b] += tokens[k]
                    else:
                        over = position % weight
                        cold[b] += tokens[k] * (weight - over)
                        cold[b + 1] += tokens[k] * over
                run += own
                k += 1
                if k >= offsets[r + 1]:
                    break
                place = _place(ids[k], keys, last)
                if last[place] != q:
                    break
            held[q] -= run
            held_by_all -= run
            walked += run
            node = q + 1
            while node <= slots:
                tree[node] -= run
                node += node & -node
        held[slot] = walked
        held_by_all += walked
        node = slot + 1
        while node <= slots:
            tree[node] += walked
            node += node & -node
    return new, new_cold
