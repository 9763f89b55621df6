"""What the lab replays: requests with exact prefix structure, made of literal tokens and of earlier outputs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

# Literal tokens stay in this range: small vocabularies have them, and special tokens lie outside.
FIRST_TOKEN, LAST_TOKEN = 256, 8192


@dataclass(frozen=True, slots=True)
class Text:
    """Literal tokens: the first `tokens` of the endless random text called `name`."""

    name: tuple[int, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class Output:
    """The first `tokens` tokens that the server generated for an earlier request."""

    request: int
    tokens: int


Piece = Text | Output


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a workload.

    Attributes:
        pieces: the prompt, in order.
        output_tokens: tokens to generate, at least 1.
        session: requests of one session are never in flight together; None when there are no sessions.
    """

    pieces: tuple[Piece, ...]
    output_tokens: int
    session: int | None = None

    @property
    def input_tokens(self) -> int:
        """Prompt tokens."""
        return sum(piece.tokens for piece in self.pieces)


class Workload(Protocol):
    """A named sequence of requests."""

    @property
    def name(self) -> str:
        """What the workload is called in reports."""

    @property
    def seed(self) -> int:
        """Seed of the texts."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader of a report should know."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Request: ...


@dataclass(frozen=True, slots=True)
class Listed:
    """A workload whose requests are in memory."""

    name: str
    seed: int
    requests: Sequence[Request]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.requests)

    def __getitem__(self, index: int) -> Request:
        return self.requests[index]


def each(workload: Workload) -> Iterator[Request]:
    """The requests in order."""
    return (workload[index] for index in range(len(workload)))


def literal(text: Text, seed: int) -> NDArray[np.int64]:
    """The tokens of a text: the same name and seed give the same tokens, however many are asked for."""
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, *text.name])))
    # Doubles are drawn one by one, so that a longer text begins with the shorter one.
    return (FIRST_TOKEN + random.random(text.tokens) * (LAST_TOKEN - FIRST_TOKEN)).astype(np.int64)


def symbolic(request: Request, seed: int) -> NDArray[np.int64]:
    """The prompt with outputs that are not known yet as negative numbers, one per request and position."""
    parts = [
        literal(piece, seed) if isinstance(piece, Text) else symbols(piece.request, piece.tokens)
        for piece in request.pieces
    ]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def symbols(request: int, tokens: int) -> NDArray[np.int64]:
    """Stand-ins for the first `tokens` output tokens of a request."""
    return -(1 + (request << 32) + np.arange(tokens, dtype=np.int64))


def resolve(prompt: NDArray[np.int64], outputs: dict[int, list[int]]) -> list[int]:
    """A symbolic prompt with the real outputs in place; KeyError when an output is not there."""
    tokens: list[int] = prompt.tolist()
    for position in np.flatnonzero(prompt < 0).tolist():
        request, at = divmod(-tokens[position] - 1, 1 << 32)
        tokens[position] = outputs[request][at]
    return tokens
