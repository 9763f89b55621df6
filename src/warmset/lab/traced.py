"""A trace as a workload: token ids derived from its blocks, so that the prefix structure is exactly the trace's."""

from dataclasses import dataclass
from pathlib import Path

from warmset.errors import InputError
from warmset.lab.record import Lab
from warmset.lab.workload import Request, Text
from warmset.traces.record import Trace

_BLOCK, _REST = 16, 17


@dataclass(frozen=True, slots=True)
class Traced:
    """The first `length` requests of a trace.

    Blocks with equal ids get equal tokens, others random ones. Prompt tokens that no block covers are
    the request's own. `output_tokens` replaces the trace's outputs; where neither says, one is generated.
    `notes` say what was assumed and left out when the trace was read.
    """

    trace: Trace
    name: str
    seed: int
    length: int
    output_tokens: int | None = None
    notes: tuple[str, ...] = ()

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


def traced(lab: Lab) -> Traced:
    """The workload of a lab's trace; InputError when it cannot be read."""
    from warmset.traces import read

    assert lab.trace is not None
    try:
        found = read(lab.trace, lab.reading)
    except InputError as error:
        # `--block-tokens` is the server's here.
        hint = error.hint and error.hint.replace("--block-tokens", "--trace-block-tokens")
        raise InputError(error.message, hint=hint) from None
    name = Path(lab.trace).name.rpartition(":")[2].partition(".")[0] or "trace"
    skipped = (f"{reason}: {count:,} left out of the trace" for reason, count in found.skipped.items())
    length = min(lab.requests or found.trace.requests, found.trace.requests)
    return Traced(found.trace, name, lab.seed, length, lab.output_tokens, (*found.notes, *skipped))
