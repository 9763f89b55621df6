"""A trace as a workload: token ids derived from its blocks, so that the prefix structure is exactly the trace's."""

from dataclasses import dataclass

from warmset.errors import InputError
from warmset.lab.workload import Request, Text
from warmset.traces.record import Trace

_BLOCK, _REST = 16, 17


@dataclass(frozen=True, slots=True)
class Traced:
    """The first `length` requests of a trace.

    Blocks with equal ids get equal tokens, others random ones. Prompt tokens that no block covers are
    the request's own. `output_tokens` replaces the trace's outputs; where neither says, one is generated.
    """

    trace: Trace
    name: str
    seed: int
    length: int
    output_tokens: int | None = None

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Request:
        trace = self.trace
        first, last = int(trace.offsets[index]), int(trace.offsets[index + 1])
        left = int(trace.input_tokens[index])
        pieces = []
        for access in range(first, last):
            listed = (
                trace.block_tokens if trace.tokens_per_block is None else int(trace.tokens_per_block[access])
            )
            tokens = min(listed, left)
            if tokens <= 0:
                break
            pieces.append(Text((_BLOCK, int(trace.block_ids[access])), tokens))
            left -= tokens
        if left > 0 or not pieces:
            pieces.append(Text((_REST, index), max(left, 1)))
        outputs = self.output_tokens or max(int(trace.output_tokens[index]), 1)
        session = None if trace.session_ids is None else int(trace.session_ids[index])
        return Request(tuple(pieces), outputs, None if session is None or session < 0 else session)


def traced(
    trace: Trace, name: str, *, seed: int, requests: int | None = None, output_tokens: int | None = None
) -> Traced:
    """The workload of a trace; InputError when it has no requests."""
    if trace.requests == 0:
        raise InputError(f"trace `{name}` has no requests", hint="give a trace with requests")
    return Traced(trace, name, seed, min(requests or trace.requests, trace.requests), output_tokens)
