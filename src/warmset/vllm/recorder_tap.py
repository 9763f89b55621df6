"""The scheduler's end of the recorder: one join and one put per request, everything else elsewhere."""

import json
import logging
import math
import queue
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

from warmset.vllm.recorder_settings import RecorderSettings, live_path

# arrival, arrival of the oldest request that still runs, input tokens, output tokens, device hit tokens
# (-1: unknown), bytes per hash, hash bytes, dropped so far
FRAME = struct.Struct("<ddqqqIQQ")
_CLOSE_SECONDS = 5.0
_logger = logging.getLogger(__name__)


class Tap:
    """Hands finished requests to the writer process and never waits for it."""

    def __init__(
        self, settings: RecorderSettings, *, block_tokens: int, device_blocks: int, model: str
    ) -> None:
        self._backlog_bytes = settings.backlog_bytes
        self._queued, self._sent, self._dropped = 0, 0, 0
        self._queue: queue.SimpleQueue[tuple[bytes, bytes] | None] = queue.SimpleQueue()
        # Nobody is to take the curve of an earlier recording for this one's.
        self._live = live_path(settings.path)
        with suppress(OSError):
            self._live.unlink()
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
        *,
        oldest_running: float = math.inf,
    ) -> None:
        """Queue one finished request; it is left out when too much waits already.

        `oldest_running` is the arrival of the oldest request that has not finished: none that is yet to come
        arrived before.
        """
        joined = b"".join(hashes)
        if self._queued - self._sent > self._backlog_bytes:
            self._dropped += 1
            return
        self._queued += len(joined) + FRAME.size
        frame = FRAME.pack(
            arrival,
            oldest_running,
            input_tokens,
            output_tokens,
            -1 if device_hit_tokens is None else device_hit_tokens,
            len(hashes[0]) if hashes else 1,
            len(joined),
            self._dropped,
        )
        self._queue.put((frame, joined))

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
                for part in item:
                    view = memoryview(part)
                    while view:
                        view = view[pipe.write(view) or 0 :]
                self._sent += len(item[1]) + FRAME.size
            pipe.close()
        except OSError:
            # The writer is gone. Nothing counts as sent any more, so everything is dropped from now on.
            self._queued = self._sent + self._backlog_bytes + 1
            # Without this file /metrics shows that the recorder is down.
            with suppress(OSError):
                self._live.unlink()
            _logger.warning(
                "the traffic recorder's writer is gone (exit code %s): nothing is recorded any more, the server "
                "goes on",
                self._writer.poll(),
            )
            while self._queue.get() is not None:
                pass
