"""The lab's own workloads, sized by the tiers that they are to exercise."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from warmset.errors import InputError, UnknownName
from warmset.lab.workload import Listed, Output, Piece, Request, Text

MOST_REQUESTS = 100_000
_SYSTEM, _USER, _DOCUMENT, _TOOL = range(4)


@dataclass(frozen=True, slots=True)
class Shape:
    """Capacities that a workload is laid out against.

    Attributes:
        device_tokens: what the device pool holds.
        tier_tokens: what the host tier holds.
        requests: how many requests to make.
        output_tokens: generated per request; None leaves it to the workload.
        seed: of everything random.
        longest_tokens: bound of a prompt, where the server has one.
    """

    device_tokens: int
    tier_tokens: int
    requests: int
    output_tokens: int | None
    seed: int
    longest_tokens: int | None = None

    def share(self, parts: int) -> int:
        """Tokens of one part of the device pool, within the bound of a prompt."""
        return min(self.device_tokens // parts, self.longest_tokens or self.device_tokens)


@dataclass(slots=True)
class _Session:
    number: int
    pieces: list[Piece]
    turns_left: int
    turn: int = 0
    tokens: int = field(default=0)


def _chat(shape: Shape) -> list[Request]:
    """Conversations that come and go; whose turn it is, is random. Fits the tier, not the device."""
    return _conversations(shape, warm_tokens=_between(shape, 0.9), cyclic=False)


def _overflow(shape: Shape) -> list[Request]:
    """Conversations in turn, more than the tier holds: least-recently-used keeps nothing that is asked for."""
    return _conversations(shape, warm_tokens=_between(shape, 1.6), cyclic=True)


def _agent(shape: Shape) -> list[Request]:
    """Agents that share one long instruction and grow by tool results, a few steps at a time."""
    random = np.random.default_rng(shape.seed)
    longest = shape.share(3)
    outputs = shape.output_tokens or 12
    instruction = Text((_SYSTEM,), longest // 4)
    agents: list[_Session] = []
    wanted = _sessions(shape, _between(shape, 0.7) / (longest * 0.6))
    requests: list[Request] = []
    number = 0
    current: _Session | None = None
    burst = 0
    while len(requests) < shape.requests:
        while len(agents) < wanted:
            agents.append(_Session(number, [instruction], 1000))
            number += 1
        if current not in agents or burst == 0:
            current = agents[random.integers(len(agents))]
            burst = int(random.integers(1, 5))
        assert current is not None
        step = Text((_TOOL, current.number, current.turn), int(random.integers(longest // 24, longest // 8)))
        request = Request((*current.pieces, step), outputs, current.number)
        requests.append(request)
        current.pieces = [*request.pieces, Output(len(requests) - 1, outputs)]
        current.turn, burst = current.turn + 1, burst - 1
        if request.input_tokens > longest * 0.85:
            agents.remove(current)
    return requests


def _rag(shape: Shape) -> list[Request]:
    """Questions over popular documents: an instruction, two or three documents, a question of its own."""
    random = np.random.default_rng(shape.seed)
    document_tokens = max(48, shape.share(6) // 4)
    instruction = Text((_SYSTEM,), document_tokens // 2)
    lists = max(4, _sessions(shape, _between(shape, 0.8) / (2.5 * document_tokens)))
    weights = 1.0 / np.arange(1, lists + 1) ** 0.7
    popularity = weights / weights.sum()
    documents = [random.permutation(lists)[: random.integers(2, 4)] for _ in range(lists)]
    requests = []
    for number in range(shape.requests):
        chosen = documents[random.choice(lists, p=popularity)]
        pieces: list[Piece] = [
            Text((_DOCUMENT, int(document)), document_tokens + 7 * int(document) % 31) for document in chosen
        ]
        question = Text((_USER, number), int(random.integers(12, 40)))
        requests.append(Request((instruction, *pieces, question), shape.output_tokens or 16))
    return requests


def _noreuse(shape: Shape) -> list[Request]:
    """Prompts that have nothing in common."""
    random = np.random.default_rng(shape.seed)
    longest = shape.share(4)
    return [
        Request(
            (Text((_USER, number), int(random.integers(longest // 2, longest))),), shape.output_tokens or 16
        )
        for number in range(shape.requests)
    ]


BUILTIN: dict[str, Callable[[Shape], list[Request]]] = {
    "chat": _chat,
    "agent": _agent,
    "rag": _rag,
    "noreuse": _noreuse,
    "overflow": _overflow,
}


def builtin(name: str, shape: Shape) -> Listed:
    """The built-in workload of that name, laid out for these capacities."""
    make = BUILTIN.get(name)
    if make is None:
        raise UnknownName(
            "workload", name, BUILTIN, hint=f"use one of {', '.join(BUILTIN)}, or `--trace FILE`"
        )
    if shape.device_tokens < 1024:
        raise InputError(
            f"a device pool of `{shape.device_tokens}` tokens is too small for a workload",
            hint="give at least 1,024 tokens: more `--device-blocks`, or a larger `--block-tokens`",
        )
    if shape.requests > MOST_REQUESTS:
        raise InputError(
            f"`{shape.requests:,}` requests are more than a lab replays in a day",
            hint=f"give `--requests {MOST_REQUESTS}` or fewer",
        )
    return Listed(name, shape.seed, make(shape))


def _between(shape: Shape, share: float) -> float:
    """A warm set that fills `share` of the larger tier."""
    return share * max(shape.device_tokens, shape.tier_tokens)


def _sessions(shape: Shape, wanted: float) -> int:
    """How many at a time; more than there are requests would never come up."""
    return max(2, min(round(wanted), shape.requests))


def _conversations(shape: Shape, *, warm_tokens: float, cyclic: bool) -> list[Request]:
    random = np.random.default_rng(shape.seed)
    longest = shape.share(4)
    outputs = shape.output_tokens or 16
    user = max(8, longest // 12)
    system = Text((_SYSTEM,), longest // 8)
    turns = max(1, min(8, (longest - system.tokens - 2 * user) // (user + outputs)))
    # Where nothing is to survive, contexts are long from the first turn on.
    opening = longest // 2 if cyclic else user
    mean_context = system.tokens + opening + user / 2 + (0 if cyclic else (turns / 2) * (user + outputs))
    wanted = _sessions(shape, warm_tokens / mean_context)
    sessions: list[_Session] = []
    requests: list[Request] = []
    number = 0
    while len(requests) < shape.requests:
        while len(sessions) < wanted:
            # The first ones start in the middle of their lives, or all would end together.
            left = int(random.integers(1, turns + 1)) if number < wanted and not cyclic else turns
            sessions.append(_Session(number, [system], left))
            number += 1
        session = sessions[0] if cyclic else sessions[random.integers(len(sessions))]
        words = int(random.integers(user // 2, 3 * user // 2 + 1)) + (opening if session.turn == 0 else 0)
        message = Text((_USER, session.number, session.turn), words)
        request = Request((*session.pieces, message), outputs, session.number)
        requests.append(request)
        session.pieces = [*request.pieces, Output(len(requests) - 1, outputs)]
        session.turn, session.turns_left = session.turn + 1, session.turns_left - 1
        sessions.remove(session)
        if session.turns_left:
            sessions.append(session)
    return requests
