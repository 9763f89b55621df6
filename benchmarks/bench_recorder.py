"""What the traffic recorder costs the scheduler's thread per request."""

import tempfile
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from warmset.vllm.recorder_settings import RecorderSettings
from warmset.vllm.recorder_tap import Tap

REQUESTS = 1000


def main() -> Iterator[tuple[str, float, str]]:
    """Time on the scheduler's thread for prompts of 10 to 8,000 blocks, and the cost per block."""
    with tempfile.TemporaryDirectory() as home:
        settings = RecorderSettings(Path(home) / "traffic.jsonl.gz", backlog_bytes=1 << 34)
        tap = Tap(settings, block_tokens=16, device_blocks=1000, model="bench")
        hashes = [sha256(str(i).encode()).digest() for i in range(8000)]
        medians = {}
        for blocks in (10, 1000, 8000):
            taken = []
            for number in range(REQUESTS if blocks < 5000 else REQUESTS // 10):
                began = time.perf_counter()
                tap.put(float(number), blocks * 16, 100, 0, hashes[:blocks])
                taken.append(time.perf_counter() - began)
                # Requests finish one by one, and what was queued for one is gone before the next.
                while tap._sent < tap._queued:
                    time.sleep(0.0002)
            taken.sort()
            medians[blocks] = taken[len(taken) // 2]
            yield f"recorder on the scheduler, {blocks:,} blocks, median", medians[blocks] * 1e6, "µs"
        slope = (medians[8000] - medians[10]) / 7990
        yield "recorder on the scheduler, per block", slope * 1e9, "ns"
        tap._writer.kill()
        tap.close()


if __name__ == "__main__":
    for label, value, unit in main():
        print(f"{label:<70} {value:8.2f} {unit}")
