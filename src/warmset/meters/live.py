"""Samples running servers for a while."""

import asyncio
import time
from collections.abc import Callable, Sequence

from warmset.errors import InputError
from warmset.meters.http import Access, client
from warmset.meters.matchers import Matchers
from warmset.meters.rates import Recorder
from warmset.meters.snapshot import Snapshot, select
from warmset.meters.sources import sweep
from warmset.meters.window import Window


def interval_for(seconds: float) -> float:
    """Seconds between sweeps: some forty in a window, never faster than one and never slower than fifteen."""
    return min(15.0, max(1.0, seconds / 40))


def snapshot_of(urls: Sequence[str], how: Access, matchers: Matchers = ()) -> Snapshot:
    """One sweep over all servers."""
    return select(asyncio.run(sweep(urls, how)), matchers)


def sample(
    urls: Sequence[str],
    how: Access,
    seconds: float,
    matchers: Matchers = (),
    progress: Callable[[float], None] | None = None,
) -> Window:
    """Sweep the servers for `seconds`, the first time at once and the last time at the end."""
    return asyncio.run(_sample(urls, how, seconds, matchers, progress or (lambda _: None)))


async def _sample(
    urls: Sequence[str], how: Access, seconds: float, matchers: Matchers, progress: Callable[[float], None]
) -> Window:
    recorder, step = Recorder(), interval_for(seconds)
    async with client(how) as session:
        recorder.add(select(await sweep(urls, how, session), matchers))
        began = due = time.monotonic()
        while (now := time.monotonic()) - began < seconds:
            progress(now - began)
            due = min(due + step, began + seconds)
            while (left := due - time.monotonic()) > 0:
                await asyncio.sleep(min(left, 0.5))
                progress(min(seconds, time.monotonic() - began))
            try:
                recorder.add(select(await sweep(urls, how, session), matchers))
            except InputError as error:
                recorder.failed["a sweep in the window"] = error.message
        progress(seconds)
        return recorder.window()
