"""Tells the format of a trace by its first bytes."""

import json

from warmset.errors import InputError
from warmset.traces.source import Source

_HINT = "name the format: `format:path`, such as `mooncake:{path}`"


def detect(source: Source) -> str:
    """The name of the reader for `source`; InputError where nothing fits."""
    if source.path.is_dir():
        return "agent"
    head = source.head()
    if head.startswith(b"PAR1"):
        return "table"
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if not text:
        raise InputError(f"`{source.path}` is empty", hint="name a trace with at least one request")
    # A capture of KV events: the length of the first record, then an array of two or three items.
    if len(head) > 5 and head[0] == 0 and head[4] in (0x92, 0x93):
        return "kv-events"
    if b"\0" in head:
        raise InputError(f"`{source.path}` is a binary file", hint=_HINT.format(path=source.path))
    found = _by_first_object(text)
    if found is None and text[:1] not in (b"{", b"[") and b"," in text.split(b"\n")[0]:
        found = "table"
    if found is None:
        raise InputError(f"cannot tell the format of `{source.path}`", hint=_HINT.format(path=source.path))
    return found


def _by_first_object(text: bytes) -> str | None:
    try:
        row = json.loads(text.split(b"\n", 1)[0])
    except (ValueError, RecursionError):
        # One long line, or one document over many lines: look for the keys themselves.
        found = _by_keys({key for key in _TELLING if f'"{key}"'.encode() in text}, text)
        return "sharegpt" if found == "openai" and text.startswith(b"[") and b'"messages"' in text else found
    if isinstance(row, list):
        if len(row) >= 2 and isinstance(row[0], (int, float)) and isinstance(row[1], list):
            return "kv-events"
        row = next((item for item in row if isinstance(item, dict)), {})
        if "messages" in row:
            return "sharegpt"  # a log of requests has one of them per line
    if not isinstance(row, dict):
        return None
    if isinstance(row.get("hash_ids"), dict):
        return "ragpulse"
    if isinstance(row.get("events"), list):
        return "kv-events"
    return _by_keys(set(row), text)


_TELLING = (
    "format", "chat_id", "parent_chat_id", "hash_ids", "input_length", "requests", "block_size",
    "hash_id_scope", "conversations", "messages", "prompt", "body", "request",
)  # fmt: skip


def _by_keys(keys: set[str], text: bytes) -> str | None:
    if "format" in keys and b'"warmset.trace/' in text[:4096]:
        return "warmset"
    if {"parent_chat_id", "hash_ids"} <= keys:
        return "bailian"
    if "requests" in keys and keys & {"hash_id_scope", "block_size"}:
        return "agent"
    if {"hash_ids", "input_length"} <= keys:
        return "mooncake"
    if "conversations" in keys:
        return "sharegpt"
    if keys & {"messages", "prompt", "body", "request"}:
        return "openai"
    return "sharegpt" if "conversation" in keys else None
