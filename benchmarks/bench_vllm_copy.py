"""The host copier of the offloading spec against memcpy of the same chunks.

Layers of one allocation, as vLLM 0.32 lays them out, and chunks that lie scattered, as they do once the
pool has turned over. Every size moves the same bytes in total, through memory that no cache holds. The
yardstick copies the same chunks between the same two orders, each in one piece.
"""

import time
from collections.abc import Iterator

import numpy as np

from warmset.vllm.host_copy import Layer, copy, runs, strips

LAYERS = 32
MOVED_BYTES = 256 << 20
ROUNDS = 9


def main() -> Iterator[tuple[str, float, str]]:
    """Copy speed and its cost relative to memcpy, per chunk size, both ways."""
    for chunk_kib, blocks_per_chunk in ((64, 1), (512, 1), (2048, 1), (2048, 4), (8192, 16)):
        page = chunk_kib * 1024 // LAYERS // blocks_per_chunk
        chunks = MOVED_BYTES // (chunk_kib * 1024)
        blocks = chunks * blocks_per_chunk
        # A pool of no round size: powers of two would make the layers compete for the same cache sets.
        device = np.ones((LAYERS, blocks + 37, page), np.int8)
        host = np.ones((chunks, LAYERS * page * blocks_per_chunk), np.int8)
        width = page * blocks_per_chunk
        layers = [Layer(device[i], host[:, i * width : (i + 1) * width], page, (0, 0)) for i in range(LAYERS)]
        (strip,) = strips(layers, blocks_per_chunk)
        rng = np.random.default_rng(0)
        # A chunk's blocks were allocated together; chunks lie anywhere.
        order = rng.permutation(chunks)
        block_ids = (order[:, None] * blocks_per_chunk + np.arange(blocks_per_chunk)).ravel()
        chunk_ids = rng.permutation(chunks)
        flat = np.ones((chunks, chunk_kib * 1024), np.int8)
        pairs = list(zip(order.tolist(), chunk_ids.tolist(), strict=True))
        times: dict[str, list[float]] = {"memcpy": [], "store": [], "load": []}
        for _ in range(ROUNDS):
            for name, to_host in (("memcpy", None), ("store", True), ("load", False)):
                began = time.perf_counter()
                if to_host is None:
                    for source, target in pairs:
                        host[target] = flat[source]
                else:
                    for run in runs(block_ids, chunk_ids, 0, blocks_per_chunk):
                        copy(strip, run, to_host=to_host)
                times[name].append(time.perf_counter() - began)
        best = {name: min(taken) for name, taken in times.items()}
        label = f"host copy, chunks of {chunk_kib} KiB in {blocks_per_chunk} blocks"
        for name in ("store", "load"):
            yield f"{label}, {name}", MOVED_BYTES / best[name] / 2**30, "GiB/s"
            # Round by round, so that what else the machine does weighs on both alike.
            ratios = sorted(a / b for a, b in zip(times[name], times["memcpy"], strict=True))
            yield f"{label}, {name} over memcpy", ratios[len(ratios) // 2], "×"


if __name__ == "__main__":
    for label, value, unit in main():
        print(f"{label:<70} {value:8.2f} {unit}")
