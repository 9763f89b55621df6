"""Makes a Trace of synthetic traffic."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from warmset.errors import InputError, UnknownName
from warmset.traces.assemble import assemble
from warmset.traces.generate.kinds import KINDS, Request, by_arrival
from warmset.traces.generate.knobs import knobs
from warmset.traces.options import ReadOptions
from warmset.traces.record import Trace
from warmset.traces.rows import Problems, RowsBuilder

# Requests wait in memory until they are in order of arrival: some 2 GiB at the most.
MAX_ACCESSES = 100_000_000


def generate(kind: str, *, seed: int = 0, **given: Any) -> Trace:
    """A trace of `kind` (one of KINDS); `given` are fields of Knobs. Equal arguments give equal traces."""
    if kind not in KINDS:
        raise UnknownName("kind of traffic", kind, KINDS, hint=f"generate {', '.join(KINDS)}")
    settings = knobs(kind, **given)
    rows = RowsBuilder(settings.block_tokens)
    requests = by_arrival(list(_bounded(KINDS[kind](settings, np.random.default_rng(seed)))))
    for number, (time, labels, input_tokens, output_tokens, session) in enumerate(requests, 1):
        # Whole milliseconds: every format keeps them.
        rows.add(number, labels, round(time * 1000), input_tokens, output_tokens, session)
    name = f"{kind} traffic, seed {seed}"
    return replace(assemble([rows.build()], ReadOptions(), Problems(name), "ms"), source=name)


def _bounded(requests: Iterable[Request]) -> Iterator[Request]:
    accesses = 0
    for request in requests:
        accesses += len(request[1])
        if accesses > MAX_ACCESSES:
            raise InputError(
                f"more than {MAX_ACCESSES:,} block accesses",
                hint="lower `--sessions`, `--turns` or the tokens, or raise `--block-tokens`",
            )
        yield request
