"""The scheduler's end of the recorder: one join and one put per request, everything else elsewhere."""

import json
import queue
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

from warmset.vllm.recorder_settings import RecorderSettings

# arrival, input tokens, output tokens, device hit tokens (-1: unknown), bytes per hash, hash bytes, dropped so far
FRAME = struct.Struct("<dqqqIQQ")
_CLOSE_SECONDS = 10.0


class Tap:
    """Hands finished requests to the writer process and never waits for it."""

    def __init__(
        self, settings: RecorderSettings, *, block_tokens: int, device_blocks: int, model: str
    ) -> None:
        self._backlog_bytes = settings.backlog_bytes
        self._queued, self._sent, self._dropped = 0, 0, 0
        self._queue: queue.SimpleQueue[tuple[float, int, int, int | None, bytes, int, int] | None] = (
            queue.SimpleQueue()
        )
        self._writer = subprocess.Popen(
            [sys.executable, "-m", "warmset.vllm.recorder_writer"], stdin=subprocess.PIPE, bufsize=0
        )
        task = {
            "path": str(settings.path),
            "max_bytes": settings.max_bytes,
            "files": settings.files,
            "curve_accesses": settings.curve_accesses,
            "device_pools": settings.device_pools,
            "block_tokens": block_tokens,
            "device_blocks": device_blocks,
            "model": model,
        }
        self._task = json.dumps(task).encode() + b"\n"
        # A daemon: a writer that hangs must not keep the server from ending.
        self._thread = threading.Thread(target=self._send, name="warmset-recorder", daemon=True)
        self._thread.start()

    def put(
        self,
        arrival: float,
        input_tokens: int,
        output_tokens: int,
        device_hit_tokens: int | None,
        hashes: Sequence[bytes],
    ) -> None:
        """Queue one request; it is left out when too much waits already."""
        joined = b"".join(hashes)
        if self._queued - self._sent > self._backlog_bytes:
            self._dropped += 1
            return
        self._queued += len(joined) + FRAME.size
        self._queue.put(
            (
                arrival,
                input_tokens,
                output_tokens,
                device_hit_tokens,
                joined,
                len(hashes[0]) if hashes else 1,
                self._dropped,
            )
        )

    def close(self) -> None:
        """Send what is queued, and give the writer some time to finish the file."""
        self._queue.put(None)
        self._thread.join(_CLOSE_SECONDS)
        with suppress(subprocess.TimeoutExpired):
            self._writer.wait(_CLOSE_SECONDS)

    def _send(self) -> None:
        pipe = self._writer.stdin
        assert pipe is not None
        try:
            pipe.write(self._task)
            while (item := self._queue.get()) is not None:
                arrival, inputs, outputs, hit, joined, width, dropped = item
                frame = FRAME.pack(
                    arrival, inputs, outputs, -1 if hit is None else hit, width, len(joined), dropped
                )
                for part in (frame, joined):
                    view = memoryview(part)
                    while view:
                        view = view[pipe.write(view) or 0 :]
                self._sent += len(joined) + FRAME.size
            pipe.close()
        except OSError:
            # The writer is gone. Nothing counts as sent any more, so everything is dropped from now on.
            self._queued = self._sent + self._backlog_bytes + 1
            while self._queue.get() is not None:
                pass
