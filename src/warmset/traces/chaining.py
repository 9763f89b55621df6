"""Chains hashes of block contents into prefix ids.

A server may reuse a block only where everything before it is equal too. Formats that name blocks by their
content alone would count a repeated block behind a different prefix as a hit.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import pairwise

import numpy as np

from warmset.traces.rows import Rows

ROOT = 0


def chain(contents: Iterable[int], root: int = ROOT) -> list[int]:
    """64-bit prefix ids of blocks whose contents are named by unsigned 64-bit numbers.

    Two results are equal exactly where `root` and all contents up to there are equal, but for collisions of a
    64-bit hash (one in 3,700 for 10**8 different blocks).
    """
    labels = []
    parent = root
    for content in contents:
        digest = blake2b(struct.pack("<QQ", parent, content), digest_size=8).digest()
        parent = int.from_bytes(digest, "little")
        labels.append(parent)
    return labels


def chain_tokens(tokens: Sequence[int], block_tokens: int, root: int = ROOT) -> list[int]:
    """Prefix ids of the full blocks of `tokens`; a server hashes no partial block."""
    packed = np.asarray(tokens, dtype="<i4").tobytes()
    size = 4 * block_tokens
    labels, parent = [], root
    for start in range(0, len(packed) - size + 1, size):
        digest = blake2b(struct.pack("<Q", parent) + packed[start : start + size], digest_size=8).digest()
        parent = int.from_bytes(digest, "little")
        labels.append(parent)
    return labels


def rechained(rows: Rows) -> Rows:
    """The same rows with content ids chained into prefix ids."""
    labels: list[int] = []
    offsets = rows.offsets.tolist()
    contents = rows.labels.tolist()
    for start, end in pairwise(offsets):
        labels += chain(contents[start:end])
    return replace(rows, labels=np.array(labels, np.uint64))
