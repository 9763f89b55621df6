"""The hit-rate curve of a recording while it grows: exact, and by a sample of the blocks beyond a bound."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmset.curves.exact import lru_curve
from warmset.traces.record import Trace


class LiveCurve:
    """Keeps the block accesses of all requests so far, at most `max_accesses` of them.

    Beyond that it follows every second block, then every fourth, and so on: ids are keyed hashes, so the low
    bits choose a random sample, and a sample of 1/n of the blocks in a cache of 1/n of the size hits as often.
    """

    def __init__(
        self, block_tokens: int, device_blocks: int, device_pools: tuple[float, ...], max_accesses: int
    ) -> None:
        self._block_tokens, self._device_blocks, self._pools = block_tokens, device_blocks, device_pools
        self._max_accesses = max_accesses
        self._ids = np.zeros(1 << 12, dtype=np.uint64)
        self._used = 0
        self._ends: list[int] = []
        self._one_of = 1
        self._requests = 0

    def add(self, packed_ids: bytes) -> None:
        """Add one request by its ids, 64 bits each, root first."""
        self._requests += 1
        ids = np.frombuffer(packed_ids, dtype="<u8")
        if self._one_of > 1:
            ids = ids[self._followed(ids)]
        if not len(ids):
            return
        need = self._used + len(ids)
        if need > len(self._ids):
            self._ids = np.resize(self._ids, max(need, 2 * len(self._ids)))
        self._ids[self._used : need] = ids
        self._used = need
        self._ends.append(need)
        while self._used > self._max_accesses:
            self._thin()

    def points(self) -> dict[str, Any]:
        """The curve at the sizes asked for; a host tier adds what it holds beyond the device."""
        curve = lru_curve(self._trace()) if self._ends else None

        def ratio(blocks: int) -> float:
            return 0.0 if curve is None else curve.hit_ratio_at(blocks // self._one_of)

        device = ratio(self._device_blocks)
        points = []
        # Before the first request there is no ratio.
        for pools in self._pools if self._requests else ():
            blocks = round(pools * self._device_blocks)
            points.append(
                {
                    "device_pools": pools,
                    "capacity_blocks": blocks,
                    "hit_ratio": ratio(blocks),
                    "host_tier_hit_ratio": max(0.0, ratio(blocks) - device),
                }
            )
        return {
            "requests": self._requests,
            "sampled_ratio": 1 / self._one_of,
            "block_tokens": self._block_tokens,
            "device_blocks": self._device_blocks,
            "points": points,
        }

    def _trace(self) -> Trace:
        unique, dense = np.unique(self._ids[: self._used], return_inverse=True)
        offsets = np.array([0, *self._ends], dtype=np.int64)
        requests = len(self._ends)
        return Trace(
            block_ids=dense.astype(np.int64),
            offsets=offsets,
            arrival_seconds=np.full(requests, np.nan),
            input_tokens=np.diff(offsets) * self._block_tokens,
            output_tokens=np.full(requests, -1, dtype=np.int64),
            session_ids=None,
            block_tokens=self._block_tokens,
            tokens_per_block=None,
            unique_blocks=len(unique),
        )

    def _thin(self) -> None:
        self._one_of *= 2
        kept = self._followed(self._ids[: self._used])
        before = np.concatenate([[0], np.cumsum(kept)])
        # Requests of which nothing is left are forgotten.
        self._ends = [end for end in np.unique(before[self._ends]).tolist() if end]
        self._ids = self._ids[: self._used][kept]
        self._used = len(self._ids)

    def _followed(self, ids: NDArray[np.uint64]) -> NDArray[np.bool_]:
        followed: NDArray[np.bool_] = (ids & np.uint64(self._one_of - 1)) == 0
        return followed
