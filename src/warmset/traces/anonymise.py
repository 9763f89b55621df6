"""Renumbers a trace so that its ids say nothing, and structure stays exactly as it is."""

import secrets
from hashlib import blake2b
from pathlib import Path

import numpy as np

from warmset.traces.record import Trace
from warmset.traces.writing import write


def write_anonymised(trace: Trace, path: str | Path, form: str, *, overwrite: bool = False) -> None:
    """Write `trace` with ids drawn by a salt that is thrown away.

    Ids of blocks become keyed 63-bit hashes, which signed integers hold, and sessions random-looking names: they
    cannot be traced back, nor compared with any other output, of this trace or another. Order, lengths, times since
    the first request and every equality within the trace stay.
    """
    salt = secrets.token_bytes(32)

    def hashed(kind: bytes, number: int) -> bytes:
        return blake2b(number.to_bytes(8, "little"), digest_size=8, key=salt, person=kind).digest()

    raw = b"".join(hashed(b"block", block) for block in range(trace.unique_blocks))
    labels = np.frombuffer(raw, "<u8") >> np.uint64(1)
    sessions = 0 if trace.session_ids is None else int(trace.session_ids.max(initial=-1)) + 1
    names = [hashed(b"session", number).hex() for number in range(sessions)]
    write(trace, path, form, block_labels=labels, session_labels=names, salted=True, overwrite=overwrite)
