"""Predicts, token for token, what vLLM's caches will hit when a workload is replayed.

The device pool and the host tier are played through with the rules of vLLM 0.32 (`v1/core/block_pool.py`,
`v1/kv_offload/cpu`, `kv_connector/v1/offloading/scheduler.py`), for one group of full-attention layers:

- one block of the pool is never used;
- a hit on the device ends before the last token, which is always computed; a hit in the tier does not, and
  the last token is computed over what was loaded;
- generated blocks enter the device pool as they fill; the token generated last is never cached;
- a request's blocks are given back tail first; the partly filled one is reused at once, the others last;
- the tier is offered a request's prompt chunks from the first one, or, after a load, from the end of what
  was loaded; what a request loaded or was offered becomes recent when it finishes, its head most;
- while `prompt_only` holds, generated chunks do not enter the tier;
- a tier below (`v1/kv_offload/tiering/manager.py`) gets every chunk that the host tier stores and keeps it;
  what is found only there moves up, and what it displaces in the host tier may have to move up again.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warmset.errors import InputError
from warmset.lab.workload import Workload, each, symbolic, symbols
from warmset.units import format_counted

Key = int


@dataclass(frozen=True, slots=True)
class Tiers:
    """Capacities and rules of the server.

    Attributes:
        block_tokens: tokens per device block.
        device_blocks: blocks of the device pool, the unused one included.
        host_chunks: chunks of the host tier; None without a tier.
        blocks_per_chunk: device blocks per chunk.
        prompt_only: generated tokens do not enter the tier.
        concurrency: requests in flight together.
        disk: below the host tier is one that never loses a chunk.
    """

    block_tokens: int
    device_blocks: int
    host_chunks: int | None = None
    blocks_per_chunk: int = 1
    prompt_only: bool = True
    concurrency: int = 1
    disk: bool = False


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted hits, in tokens; `per_request` has (device, tiers) for every request."""

    prompt_tokens: int
    device_hit_tokens: int
    host_hit_tokens: int
    disk_hit_tokens: int
    per_request: tuple[tuple[int, int], ...]


def predict(workload: Workload, tiers: Tiers) -> Prediction:
    """Play a workload through the tiers, in order."""
    names = Names()
    engine = _Engine(tiers)
    hits, total = [], 0
    for number, request in enumerate(each(workload)):
        prompt = symbolic(request, workload.seed)
        # The token generated last is an input to nothing, so it is never cached.
        computed = np.concatenate([prompt, symbols(number, request.output_tokens - 1)])
        keys = names.chain(computed, tiers.block_tokens)
        hits.append(engine.run(keys, len(prompt), len(computed), request.session))
        total += len(prompt)
    disk = engine.disk_hit_tokens
    return Prediction(total, sum(d for d, _ in hits), sum(h for _, h in hits) - disk, disk, tuple(hits))


class Names:
    """Gives every distinct prefix of full blocks a number of its own."""

    def __init__(self) -> None:
        self._known: dict[tuple[Key, bytes], Key] = {}

    def chain(self, tokens: NDArray[np.int64], block_tokens: int) -> list[Key]:
        """The numbers of a sequence's full blocks, root first."""
        keys: list[Key] = []
        parent = -1
        for end in range(block_tokens, len(tokens) + 1, block_tokens):
            content = (parent, tokens[end - block_tokens : end].tobytes())
            parent = self._known.setdefault(content, len(self._known))
            keys.append(parent)
        return keys


@dataclass(slots=True)
class _Running:
    blocks: list[int]
    prompt_chunks: list[Key]
    offered_chunks: int
    observed: list[tuple[int, Key]]
    keys: Sequence[Key]
    computed_tokens: int
    session: int | None


class _Engine:
    """One server: admission, caching and release of one request after another."""

    def __init__(self, tiers: Tiers) -> None:
        self._tiers = tiers
        self._device = DevicePool(tiers.device_blocks - 1)
        self._host = HostTier(tiers.host_chunks, disk=tiers.disk) if tiers.host_chunks else None
        self.disk_hit_tokens = 0
        self._running: deque[_Running] = deque()

    def run(
        self, keys: Sequence[Key], prompt_tokens: int, computed_tokens: int, session: int | None
    ) -> tuple[int, int]:
        """Admit a request; earlier ones finish when their place, blocks or session are needed."""
        needed = -(-computed_tokens // self._tiers.block_tokens)
        if needed >= self._tiers.device_blocks:
            raise InputError(
                f"a request of {format_counted(needed, 'block')} does not fit a device pool of "
                f"`{self._tiers.device_blocks}` blocks",
                hint="give a larger pool or shorter requests",
            )
        while self._running and (
            len(self._running) >= self._tiers.concurrency
            or any(other.session == session is not None for other in self._running)
            or self._short_of_blocks(computed_tokens)
        ):
            self._finish(self._running.popleft())
        hits = self._admit(keys, prompt_tokens, computed_tokens, session)
        if self._tiers.concurrency == 1:
            self._finish(self._running.popleft())
        return hits

    def _short_of_blocks(self, tokens: int) -> bool:
        size = self._tiers.block_tokens
        promised = sum(-(-other.computed_tokens // size) - len(other.blocks) for other in self._running)
        return -(-tokens // size) + promised > self._device.free_blocks

    def _admit(
        self, keys: Sequence[Key], prompt_tokens: int, computed_tokens: int, session: int | None
    ) -> tuple[int, int]:
        size, per_chunk = self._tiers.block_tokens, self._tiers.blocks_per_chunk
        prompt_blocks = prompt_tokens // size
        chunks = [keys[i] for i in range(per_chunk - 1, prompt_blocks, per_chunk)]
        blocks = self._device.take_hits(keys[: (prompt_tokens - 1) // size])
        local = len(blocks)
        loaded_chunks = offered_chunks = 0
        observed: list[tuple[int, Key]] = []
        if self._host is not None:
            first = local // per_chunk
            found, risen = self._host.fetch(chunks[first:])
            # Less than one chunk beyond what the device has is not worth a load to vLLM.
            if (first + found) * per_chunk - local >= per_chunk:
                loaded_chunks = first + found
                observed = list(enumerate(chunks))[first:loaded_chunks]
                self.disk_hit_tokens += sum(
                    (at + 1) * per_chunk * size - max(at * per_chunk, local) * size
                    for at, key in observed
                    if key in risen
                )
        reached = max(local, loaded_chunks * per_chunk)
        self._device.add(blocks, reached)
        self._device.name(blocks[local:reached], keys[local:reached])
        self._device.add(blocks, -(-prompt_tokens // size))
        self._device.name(blocks[reached:prompt_blocks], keys[reached:prompt_blocks])
        if self._host is not None:
            offered = list(enumerate(chunks))[loaded_chunks:]
            taken = self._host.offer([key for _, key in offered])
            offered_chunks = len(chunks) if taken else loaded_chunks
            observed += offered
        self._running.append(
            _Running(blocks, chunks, offered_chunks, observed, keys, computed_tokens, session)
        )
        return local * size, (reached - local) * size

    def _finish(self, request: _Running) -> None:
        size, per_chunk = self._tiers.block_tokens, self._tiers.blocks_per_chunk
        named = len(request.prompt_chunks) * per_chunk
        before = len(request.blocks)
        self._device.add(request.blocks, -(-request.computed_tokens // size))
        # Blocks of the prompt were named on admission; the one that the prompt ended in may fill up only now.
        self._device.name_missing(request.blocks, request.keys, max(0, min(named, before) - 1))
        if self._host is not None:
            if not self._tiers.prompt_only:
                chunks = [request.keys[i] for i in range(per_chunk - 1, len(request.keys), per_chunk)]
                for position in range(len(request.prompt_chunks), len(chunks)):
                    # What was refused before is offered again, all together.
                    if self._host.offer(chunks[request.offered_chunks : position + 1]):
                        request.offered_chunks = position + 1
                    request.observed.append((position, chunks[position]))
            self._host.touch([key for _, key in sorted(request.observed)])
        self._device.release(request.blocks)


class DevicePool:
    """Blocks by number, in the order in which they will be reused; block contents by key."""

    def __init__(self, blocks: int) -> None:
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(blocks))
        self._key_of: dict[int, Key] = {}
        # More than one block may hold the same content; the oldest answers.
        self._blocks_of: dict[Key, dict[int, None]] = {}
        self._users: dict[int, int] = {}

    @property
    def free_blocks(self) -> int:
        """Blocks that no running request uses."""
        return len(self._free)

    def take_hits(self, keys: Iterable[Key]) -> list[int]:
        """Use the blocks of the longest leading run of keys that are here."""
        blocks: list[int] = []
        for key in keys:
            holders = self._blocks_of.get(key)
            if not holders:
                break
            block = next(iter(holders))
            if self._users.get(block, 0) == 0:
                del self._free[block]
            self._users[block] = self._users.get(block, 0) + 1
            blocks.append(block)
        return blocks

    def add(self, blocks: list[int], until: int) -> None:
        """Extend `blocks` to `until` with the blocks that are due for reuse; their contents are lost."""
        while len(blocks) < until:
            block, _ = self._free.popitem(last=False)
            key = self._key_of.pop(block, None)
            if key is not None:
                holders = self._blocks_of[key]
                del holders[block]
                if not holders:
                    del self._blocks_of[key]
            self._users[block] = 1
            blocks.append(block)

    def name(self, blocks: Iterable[int], keys: Iterable[Key]) -> None:
        """Say what full blocks hold."""
        for block, key in zip(blocks, keys, strict=False):
            self._key_of[block] = key
            self._blocks_of.setdefault(key, {})[block] = None

    def name_missing(self, blocks: Sequence[int], keys: Sequence[Key], start: int) -> None:
        """Say what the blocks from `start` on hold that are full and have no name yet."""
        for block, key in zip(blocks[start:], keys[start:], strict=False):
            if block not in self._key_of:
                self.name([block], [key])

    def release(self, blocks: Sequence[int]) -> None:
        """Give blocks back, the tail first; blocks without a name are reused at once, the others last."""
        unnamed: list[int] = []
        named: list[int] = []
        for block in reversed(blocks):
            self._users[block] -= 1
            if self._users[block] == 0:
                (named if block in self._key_of else unnamed).append(block)
        for block in reversed(unnamed):
            self._free[block] = None
            self._free.move_to_end(block, last=False)
        for block in named:
            self._free[block] = None


class HostTier:
    """Chunks in order of recency, and what the tier below has."""

    def __init__(self, chunks: int, *, disk: bool = False) -> None:
        self._capacity = chunks
        self._recency: OrderedDict[Key, None] = OrderedDict()
        self._below: set[Key] | None = set() if disk else None

    def fetch(self, keys: Sequence[Key]) -> tuple[int, set[Key]]:
        """How many leading keys are here at once, and those that came up from below for it."""
        risen: set[Key] = set()
        count = 0
        # A run that is longer than the tier displaces itself for ever.
        for _ in range(len(keys) + 1):
            count, rising = 0, set[Key]()
            for key in keys:
                if key not in self._recency and not self._rise(key, rising):
                    break
                count += 1
            if not rising:
                break
            risen |= rising
        return count, risen

    def _rise(self, key: Key, rising: set[Key]) -> bool:
        """Bring a chunk up; those that are on their way up make no room for it."""
        if self._below is None or key not in self._below:
            return False
        if len(self._recency) >= self._capacity:
            victim = next((other for other in self._recency if other not in rising), None)
            if victim is None:
                return False
            del self._recency[victim]
        self._recency[key] = None
        rising.add(key)
        return True

    def offer(self, keys: Sequence[Key]) -> bool:
        """Store what is missing; nothing, and False, when it would not all fit."""
        missing = [key for key in keys if key not in self._recency]
        evict = len(self._recency) + len(missing) - self._capacity
        if evict > 0:
            kept = set(keys)
            victims: list[Key] = []
            for key in self._recency:
                if len(victims) == evict:
                    break
                if key not in kept:
                    victims.append(key)
            if len(victims) < evict:
                return False
            for key in victims:
                del self._recency[key]
        for key in missing:
            self._recency[key] = None
        if self._below is not None:
            self._below.update(missing)
        return True

    def touch(self, keys: Sequence[Key]) -> None:
        """Make keys recent that are here, the first one most."""
        for key in reversed(keys):
            if key in self._recency:
                self._recency.move_to_end(key)
