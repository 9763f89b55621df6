"""The knobs of synthetic traffic, and what each kind of traffic sets them to."""

from dataclasses import dataclass, fields, replace
from typing import Any

from warmset.errors import InputError

MAX_REQUESTS = 10_000_000
# Whole contexts of today's models are a tenth of this.
MAX_TOKENS = 10_000_000
_MOST = {"documents": 10_000_000, "systems": 10_000_000, "documents_per_request": 100_000, "spread": 10.0}


@dataclass(frozen=True, slots=True)
class Knobs:
    """All knobs; each kind uses those listed in USED and ignores none that a user sets.

    Counts of tokens are means of a log-normal draw with `spread` as its sigma (0 makes every draw equal).

    Attributes:
        sessions: number of sessions (for rag and noreuse: of independent requests).
        turns: mean requests per session, geometrically distributed.
        input_tokens: mean new tokens per request: a user's message, a tool's result, a question.
        output_tokens: mean generated tokens; they become part of the session's context.
        system_tokens: tokens of a system prompt.
        systems: number of different system prompts; each session draws one.
        spread: sigma of token counts.
        rate: new sessions per second (Poisson).
        think_seconds: mean pause between a reply and the next request of a session (exponential).
        max_context_tokens: a session stops here (chat), or starts over from a summary (agent).
        subagent_ratio: share of steps that start a sub-agent with its own prompt and context.
        documents: size of the collection.
        documents_per_request: documents in one prompt.
        document_tokens: mean tokens of a document.
        zipf: exponent of the popularity of documents and system prompts; 0 is uniform.
        block_tokens: tokens per block.
    """

    sessions: int = 1000
    turns: float = 6
    input_tokens: int = 200
    output_tokens: int = 300
    system_tokens: int = 1000
    systems: int = 1
    spread: float = 0.8
    rate: float = 1.0
    think_seconds: float = 30.0
    max_context_tokens: int = 128_000
    subagent_ratio: float = 0.1
    documents: int = 2000
    documents_per_request: int = 4
    document_tokens: int = 600
    zipf: float = 1.0
    block_tokens: int = 16


_COMMON = ("sessions", "input_tokens", "output_tokens", "spread", "rate", "block_tokens")
_SESSIONS = ("turns", "system_tokens", "systems", "think_seconds", "max_context_tokens", "zipf")

USED: dict[str, tuple[str, ...]] = {
    "chat": (*_COMMON, *_SESSIONS),
    "agent": (*_COMMON, *_SESSIONS, "subagent_ratio"),
    "rag": (
        *_COMMON,
        "system_tokens",
        "systems",
        "documents",
        "documents_per_request",
        "document_tokens",
        "zipf",
    ),
    "noreuse": _COMMON,
}

_DEFAULTS: dict[str, dict[str, Any]] = {
    "chat": {},
    "agent": {
        "sessions": 100,
        "turns": 40,
        "input_tokens": 1200,
        "output_tokens": 250,
        "system_tokens": 12_000,
        "systems": 2,
        "rate": 0.05,
        "think_seconds": 5.0,
    },
    "rag": {"sessions": 5000, "input_tokens": 60, "system_tokens": 500},
    "noreuse": {"sessions": 1000, "input_tokens": 2000},
}


def knobs(kind: str, **given: Any) -> Knobs:
    """The knobs of `kind` with what is `given`; InputError for one that the kind does not use or that is off."""
    for name in given:
        if name not in USED[kind]:
            raise InputError(
                f"`{kind}` traffic does not use `{name}`", hint=f"it uses {', '.join(sorted(USED[kind]))}"
            )
    result = replace(Knobs(), **{**_DEFAULTS[kind], **given})
    for field in fields(result):
        value = getattr(result, field.name)
        low = 0 if field.name in _MAY_BE_ZERO else 1 if isinstance(value, int) else 1e-9
        high = MAX_TOKENS if field.name.endswith("_tokens") else _MOST.get(field.name, 2**40)
        if not low <= value <= high:
            raise InputError(f"`{field.name}` is `{value}`", hint=f"give a number from {low:g} to {high:,}")
    if result.turns < 1 or result.subagent_ratio > 1:
        raise InputError(
            "`turns` is below 1, or `subagent_ratio` above 1", hint="see `warmset trace generate -h`"
        )
    if result.sessions * result.turns > MAX_REQUESTS:
        raise InputError(f"more than {MAX_REQUESTS:,} requests", hint="lower `sessions` or `turns`")
    return result


_MAY_BE_ZERO = ("output_tokens", "system_tokens", "spread", "think_seconds", "zipf", "subagent_ratio")
