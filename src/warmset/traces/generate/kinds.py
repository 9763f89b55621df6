"""Chat, agent, RAG and no-reuse traffic."""

from collections.abc import Callable, Iterator
from itertools import count

import numpy as np
from numpy.random import Generator

from warmset.traces.chaining import chain
from warmset.traces.generate.draw import Context, arrivals, popularity, tokens
from warmset.traces.generate.knobs import Knobs

# Time of arrival, chained labels, prompt tokens, output tokens, session.
Request = tuple[float, list[int], int, int, int]

# A server that is not overloaded generates about this fast; it only spaces the turns of a session.
_SECONDS_PER_OUTPUT_TOKEN = 0.02
_SUMMARY_RATIO = 0.05


def chat(knobs: Knobs, rng: Generator) -> Iterator[Request]:
    """Conversations behind a shared system prompt: each turn re-reads all that was said."""
    shares = popularity(knobs.systems, knobs.zipf)
    for session, start in enumerate(arrivals(knobs.sessions, knobs.rate, rng)):
        context = Context(session, int(rng.choice(knobs.systems, p=shares)), knobs.system_tokens, knobs)
        time = float(start)
        for _ in range(int(rng.geometric(1 / knobs.turns))):
            context.grow(tokens(knobs.input_tokens, knobs.spread, rng))
            if context.tokens > knobs.max_context_tokens:
                break
            output = tokens(knobs.output_tokens, knobs.spread, rng)
            yield time, context.blocks(), context.tokens, output, session
            context.grow(output)
            time += output * _SECONDS_PER_OUTPUT_TOKEN + _pause(knobs, rng)


def agent(knobs: Knobs, rng: Generator) -> Iterator[Request]:
    """Long loops of tool calls; some steps run a sub-agent, and a full context is summarised."""
    shares = popularity(knobs.systems, knobs.zipf)
    names = count()
    for session, start in enumerate(arrivals(knobs.sessions, knobs.rate, rng)):
        system = int(rng.choice(knobs.systems, p=shares))
        context = Context(next(names), system, knobs.system_tokens, knobs)
        time = float(start)
        for _ in range(int(rng.geometric(1 / knobs.turns))):
            if rng.random() < knobs.subagent_ratio:
                # Sub-agents share a shorter prompt of their own, whatever session starts them.
                inner = Context(next(names), knobs.systems + system, knobs.system_tokens // 4, knobs)
                for _ in range(int(rng.integers(1, 6))):
                    inner.grow(tokens(knobs.input_tokens, knobs.spread, rng))
                    output = tokens(knobs.output_tokens, knobs.spread, rng)
                    yield time, inner.blocks(), inner.tokens, output, session
                    inner.grow(output)
                    time += output * _SECONDS_PER_OUTPUT_TOKEN + _pause(knobs, rng)
            context.grow(tokens(knobs.input_tokens, knobs.spread, rng))
            if context.tokens > knobs.max_context_tokens:
                kept = int(context.tokens * _SUMMARY_RATIO)
                context = Context(next(names), system, knobs.system_tokens, knobs)
                context.grow(kept)
            output = tokens(knobs.output_tokens, knobs.spread, rng)
            yield time, context.blocks(), context.tokens, output, session
            context.grow(output)
            time += output * _SECONDS_PER_OUTPUT_TOKEN + _pause(knobs, rng)


def rag(knobs: Knobs, rng: Generator) -> Iterator[Request]:
    """Single questions behind a system prompt and retrieved documents, the best match first.

    A document is reused only where everything before it is equal too, so popular documents hit less often
    than they are read.
    """
    shares = popularity(knobs.systems, knobs.zipf)
    ranks = popularity(knobs.documents, knobs.zipf)
    # Documents start on a block boundary here: as in a server, whole blocks are what can be shared.
    sizes = [
        -(-tokens(knobs.document_tokens, knobs.spread, rng) // knobs.block_tokens)
        for _ in range(knobs.documents)
    ]
    wanted = min(knobs.documents_per_request, knobs.documents)
    for session, time in enumerate(arrivals(knobs.sessions, knobs.rate, rng)):
        system = int(rng.choice(knobs.systems, p=shares))
        contents = [(system << 32) | i for i in range(knobs.system_tokens // knobs.block_tokens)]
        for document in rng.choice(knobs.documents, size=wanted, replace=False, p=ranks).tolist():
            contents += [(1 << 62) | (document << 32) | i for i in range(sizes[document])]
        question = tokens(knobs.input_tokens, knobs.spread, rng)
        prompt_tokens = len(contents) * knobs.block_tokens + question
        contents += [(1 << 63) | (session << 32) | i for i in range(question // knobs.block_tokens)]
        output = tokens(knobs.output_tokens, knobs.spread, rng)
        yield float(time), chain(contents), prompt_tokens, output, session


def noreuse(knobs: Knobs, rng: Generator) -> Iterator[Request]:
    """Prompts that share nothing: the traffic that no tier can help."""
    for session, time in enumerate(arrivals(knobs.sessions, knobs.rate, rng)):
        context = Context(session, 0, 0, knobs)
        context.grow(tokens(knobs.input_tokens, knobs.spread, rng))
        output = tokens(knobs.output_tokens, knobs.spread, rng)
        yield float(time), context.blocks(), context.tokens, output, session


def _pause(knobs: Knobs, rng: Generator) -> float:
    return float(rng.exponential(knobs.think_seconds)) if knobs.think_seconds else 0.0


KINDS: dict[str, Callable[[Knobs, Generator], Iterator[Request]]] = {
    "chat": chat,
    "agent": agent,
    "rag": rag,
    "noreuse": noreuse,
}


def by_arrival(requests: list[Request]) -> list[Request]:
    """Requests in order of arrival; ties stay as they are."""
    order = np.argsort([request[0] for request in requests], kind="stable")
    return [requests[i] for i in order]
