"""Reading speed: megabytes of uncompressed text per second of CPU time, on one core, best of five."""

import json
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from warmset.traces import Trace, load, stream
from warmset.traces.generate.make import generate
from warmset.traces.writing import write

_REPEATS = 5


def main() -> Iterator[tuple[str, float, str]]:
    with tempfile.TemporaryDirectory() as folder:
        # Long prompts of a few thousand ids, as agents send them; and short rows, as in chat logs.
        for kind, settings in (
            ("agent", {"sessions": 150, "block_tokens": 64}),
            ("chat", {"sessions": 40_000, "block_tokens": 512, "system_tokens": 2048, "input_tokens": 2000}),
        ):
            path = Path(folder) / f"{kind}.jsonl"
            trace = generate(kind, seed=1, **settings)
            write(trace, path)
            published = Path(folder) / f"{kind}-published.jsonl"
            _write_as_published(trace, published)
            yield (
                f"read Mooncake JSON lines as published: {kind}, {trace.accesses / trace.requests:.0f} ids per row",
                published.stat().st_size
                / 1e6
                / _best(lambda p=published: load(f"mooncake:{p}", block_tokens=64)),
                "MB/s",
            )
            megabytes = path.stat().st_size / 1e6
            about = f"{kind}, {megabytes:.0f} MB, {trace.accesses / trace.requests:.0f} ids per row"
            yield (
                f"read Mooncake JSON lines: {about}",
                megabytes / _best(lambda p=path: load(f"mooncake:{p}")),
                "MB/s",
            )
            yield (
                f"stream Mooncake JSON lines: {about}",
                megabytes / _best(lambda p=path: [0 for _ in stream(f"mooncake:{p}")]),
                "MB/s",
            )
            held = trace.block_ids.nbytes + (
                0 if trace.tokens_per_block is None else trace.tokens_per_block.nbytes
            )
            yield f"memory held per block access: {kind}", held / trace.accesses, "bytes"


def _write_as_published(trace: Trace, path: Path) -> None:
    """The four columns of the public traces, spaced as there."""
    ids, offsets = trace.block_ids.tolist(), trace.offsets.tolist()
    with path.open("w") as file:
        for i, (begin, end) in enumerate(pairwise(offsets)):
            row = {
                "timestamp": int(trace.arrival_seconds[i] * 1000),
                "input_length": int(trace.input_tokens[i]),
                "output_length": int(trace.output_tokens[i]),
                "hash_ids": ids[begin:end],
            }
            file.write(json.dumps(row) + "\n")


def _best(run: object) -> float:
    times = []
    for _ in range(_REPEATS):
        start = time.process_time()
        run()  # type: ignore[operator]
        times.append(time.process_time() - start)
    return min(times)
