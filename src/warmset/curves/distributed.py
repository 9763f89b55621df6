"""The sampled curve on a Dask cluster: workers read and sample shards, one stack takes the samples in order.

Reading and sampling is nearly all of the work and needs no knowledge of other shards; the samples, about
`ratio` of the accesses, come back in order and pass through the same stack as on one machine. So the curve
equals the one-machine curve bit for bit, on any number of workers.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from warmset.curves.draw import Draw, Sample, make_draw, pilot_of, sample
from warmset.curves.record import Curve
from warmset.curves.sampled import DEFAULT_MAX_BLOCKS, curve_of_samples
from warmset.curves.shards import stream_shard, stream_shards
from warmset.errors import InputError, WarmsetError
from warmset.traces import ReadOptions

# Shards under way per worker thread: enough to keep it busy, few enough to bound what waits here.
_AHEAD = 2


def distributed_curve(
    shards: tuple[str, ...],
    *,
    ratio: float = 0.01,
    seed: int = 0,
    warmup_ratio: float = 0.0,
    options: ReadOptions | None = None,
    scheduler: str | None = None,
    workers: int = 2,
    max_blocks: int = DEFAULT_MAX_BLOCKS,
    skipped: dict[str, int] | None = None,
) -> Curve:
    """`sampled_curve` over shards in order of time, on the cluster at `scheduler`.

    Without a scheduler, a cluster of `workers` processes is started here for the time of the call. Workers
    must see the shards under the same names (a shared disk, or an object store). What they left out is added to
    `skipped`; progress is told in shards.
    Raises InputError when the extra `distributed` is not installed, when the scheduler does not answer, and
    for what any worker finds wrong in its shard.
    """
    if not 0 <= warmup_ratio < 1:
        raise InputError(
            f"warm-up `{warmup_ratio}` leaves nothing to count", hint="give a share such as `0.5`"
        )
    if not 1 <= workers <= 1024:
        raise InputError(f"`{workers}` workers make no cluster", hint="give a number from 1 to 1024")
    options = options or ReadOptions()
    pilot, _ = pilot_of(stream_shards(shards, options))
    draw = make_draw(pilot, ratio, seed)
    # A shard without a full block must not guess another block size.
    progress = options.progress or (lambda done, total: None)
    options = replace(options, block_tokens=pilot[0].block_tokens, progress=None)
    del pilot
    with ExitStack() as stack:
        client = _client(stack, scheduler, workers)
        skip = 0
        if warmup_ratio:
            counts = client.gather(client.map(count_shard, shards, options=options))
            skip = math.floor(sum(_checked(found) for found in counts) * warmup_ratio)
        samples = _in_order(client, shards, draw, options, progress, {} if skipped is None else skipped)
        return curve_of_samples(samples, draw, warmup_requests=skip, max_blocks=max_blocks)


def sample_shard(
    shard: str, draw: Draw, options: ReadOptions
) -> tuple[list[Sample], dict[str, int]] | dict[str, str | None]:
    """What a worker does: samples of one shard and what it skipped, or what is wrong (errors may not travel)."""
    skipped: dict[str, int] = {}
    try:
        return [sample(part, draw) for part in stream_shard(shard, options, skipped)], skipped
    except WarmsetError as error:
        return {"message": error.message, "hint": error.hint}


def count_shard(shard: str, options: ReadOptions) -> int | dict[str, str | None]:
    """Requests of one shard, or what is wrong with it."""
    try:
        return sum(part.requests for part in stream_shard(shard, options))
    except WarmsetError as error:
        return {"message": error.message, "hint": error.hint}


def _checked(found: Any) -> Any:
    if isinstance(found, dict):
        raise InputError(str(found["message"]), hint=found["hint"])
    return found


def _in_order(
    client: Any,
    shards: tuple[str, ...],
    draw: Draw,
    options: ReadOptions,
    progress: Callable[[int, int], None],
    skipped: dict[str, int],
) -> Iterator[Sample]:
    shared = client.scatter(draw, broadcast=True)
    threads = sum(client.nthreads().values())
    waiting: deque[Any] = deque()
    todo = iter(shards)
    done = 0
    try:
        while True:
            while len(waiting) < _AHEAD * max(1, threads) and (shard := next(todo, None)) is not None:
                waiting.append(client.submit(sample_shard, shard, shared, options, pure=False))
            if not waiting:
                return
            samples, left_out = _checked(waiting.popleft().result())
            for reason, count in left_out.items():
                skipped[reason] = skipped.get(reason, 0) + count
            yield from samples
            done += 1
            progress(done, len(shards))
    finally:
        client.cancel(list(waiting))


def _client(stack: ExitStack, scheduler: str | None, workers: int) -> Any:
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise InputError(
            "a distributed curve needs Dask", hint="pip install 'warmset[distributed]'"
        ) from None
    if scheduler is None:
        cluster = LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
            silence_logs=50,
        )
        return stack.enter_context(Client(stack.enter_context(cluster)))
    try:
        return stack.enter_context(Client(scheduler, timeout="10s"))
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(
            f"the scheduler `{scheduler}` does not answer: {str(error).splitlines()[0]}",
            hint="give the address of a running Dask scheduler, such as `tcp://10.0.0.5:8786`",
        ) from None
