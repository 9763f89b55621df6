"""Reading speed: megabytes of uncompressed text per second of CPU time, on one core, best of five."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from warmset.traces import load, stream
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


def _best(run: object) -> float:
    times = []
    for _ in range(_REPEATS):
        start = time.process_time()
        run()  # type: ignore[operator]
        times.append(time.process_time() - start)
    return min(times)
