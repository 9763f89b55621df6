"""OpenAI-style request logs: JSON lines of chat or completion bodies with a time.

A line is the body itself or holds it under `body` or `request`. Text becomes tokens by the user's tokenizer
file, or byte by byte; roles are marked by a fixed frame, not by the model's own chat template.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from warmset.traces import fields
from warmset.traces.chaining import chain_tokens
from warmset.traces.lines import read_lines
from warmset.traces.options import ReadOptions
from warmset.traces.rows import BadRow, Problems, Rows, RowsBuilder
from warmset.traces.source import Source
from warmset.traces.tokens import encoder

TIME_UNIT = None
BLOCK_TOKENS = 16
_TIME_KEYS = ("timestamp", "ts", "time", "created_at", "created", "start_time")
_SESSION_KEYS = ("session_id", "conversation_id", "prompt_cache_key", "user")


def read(source: Source, options: ReadOptions, problems: Problems) -> Iterator[Rows]:
    """All requests; full blocks only."""
    rows = RowsBuilder(options.block_tokens or BLOCK_TOKENS)
    encode = encoder(options.tokenizer, problems)
    if options.block_tokens is None:
        problems.note(f"{BLOCK_TOKENS} tokens per block, the usual default of servers")

    def add(line: int, row: dict[str, Any]) -> None:
        body = next((row[key] for key in ("body", "request") if isinstance(row.get(key), dict)), row)
        tokens = prompt_tokens(body, encode)
        session = next((v for key in _SESSION_KEYS for v in (row.get(key), body.get(key)) if v), None)
        rows.add(
            line,
            chain_tokens(tokens, rows.block_tokens or BLOCK_TOKENS),
            _time(row if any(key in row for key in _TIME_KEYS) else body),
            len(tokens),
            _output_tokens(row),
            fields.session(session),
        )

    return read_lines(source, problems, rows, add)


def prompt_tokens(body: dict[str, Any], encode: Any) -> Any:
    """Tokens of the prompt of one chat or completion body."""
    prompt = body.get("prompt")
    if isinstance(prompt, str):
        return encode(prompt)
    if isinstance(prompt, list) and all(type(t) is int and 0 <= t < 2**31 for t in prompt):
        return prompt
    messages = body.get("messages")
    if not isinstance(messages, list):
        raise BadRow("neither `messages` nor a text `prompt`")
    parts = [json.dumps(body["tools"], sort_keys=True)] if body.get("tools") else []
    for message in messages:
        if not isinstance(message, dict):
            raise BadRow("a message is not an object")
        extra = json.dumps(message["tool_calls"], sort_keys=True) if message.get("tool_calls") else ""
        parts.append(frame(str(message.get("role", "")), _text(message.get("content")) + extra))
    return encode("".join(parts))


def frame(role: str, text: str) -> str:
    """One message of a prompt: marks where it starts and ends."""
    return f"<|{role}|>\n{text}\n"


def _text(content: object) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        # Images and audio stay as their JSON: equal parts stay equal, whatever they are.
        return "".join(
            part["text"]
            if isinstance(part, dict) and isinstance(part.get("text"), str)
            else json.dumps(part, sort_keys=True)
            for part in content
        )
    raise BadRow("the content of a message is neither text nor a list of parts")


def _time(row: dict[str, Any]) -> float:
    value = next((row[key] for key in _TIME_KEYS if row.get(key) is not None), None)
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return fields.time(row, *_TIME_KEYS)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return fields.time(row, *_TIME_KEYS)


def _output_tokens(row: dict[str, Any]) -> int:
    for holder in (row, row.get("response"), row.get("response_body")):
        usage = holder.get("usage") if isinstance(holder, dict) else None
        if isinstance(usage, dict):
            return fields.count(usage, "completion_tokens", default=-1)
    return -1
