"""ShareGPT-like conversations: `{id, conversations: [{from, value}]}` or `{messages: [{role, content}]}`.

Every reply is one request: its prompt is all that was said before. The text has no times, so conversations
follow each other as listed. A file is one JSON list, or one conversation per line.
"""

import json
import math
from collections.abc import Iterator
from typing import Any

from warmset.errors import InputError
from warmset.traces import fields
from warmset.traces.chaining import chain_tokens
from warmset.traces.formats.openai import BLOCK_TOKENS, frame
from warmset.traces.lines import read_lines
from warmset.traces.options import ReadOptions
from warmset.traces.rows import BadRow, Problems, Rows, RowsBuilder
from warmset.traces.source import Source
from warmset.traces.tokens import Encode, encoder

TIME_UNIT = "s"
_REPLIES = ("gpt", "assistant", "chatgpt", "bing", "bard", "model")


def read(source: Source, options: ReadOptions, problems: Problems) -> Iterator[Rows]:
    """One request per reply; full blocks only."""
    rows = RowsBuilder(options.block_tokens or BLOCK_TOKENS)
    encode = encoder(options.tokenizer, problems)
    if options.block_tokens is None:
        problems.note(f"{BLOCK_TOKENS} tokens per block, the usual default of servers")
    problems.note("conversations have no times: they follow each other as listed")

    def add(number: int, conversation: dict[str, Any]) -> None:
        _add(rows, number, conversation, encode)

    if not source.head(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
        yield from read_lines(source, problems, rows, add)
        return
    try:
        conversations = json.loads(source.document())
    except (ValueError, RecursionError):
        raise InputError(
            f"`{problems.path}` is not valid JSON, or cut short", hint="fetch it again"
        ) from None
    for number, conversation in enumerate(conversations, 1):
        try:
            if not isinstance(conversation, dict):
                raise BadRow("a conversation is not an object")
            add(number, conversation)
        except BadRow as reason:
            problems.bad(number, str(reason))
    yield rows.build()


def _add(rows: RowsBuilder, number: int, conversation: dict[str, Any], encode: Encode) -> None:
    turns = conversation.get("conversations", conversation.get("messages", conversation.get("conversation")))
    if not isinstance(turns, list):
        raise BadRow("no list of `conversations`")
    session = fields.session(conversation.get("id")) or number
    said: list[int] = []
    for turn in turns:
        if not isinstance(turn, dict):
            raise BadRow("a turn is not an object")
        role, text = turn.get("from", turn.get("role")), turn.get("value", turn.get("content"))
        if not isinstance(role, str) or not isinstance(text, str):
            raise BadRow("a turn has no speaker or no text")
        if role in _REPLIES and said:
            reply = len(encode(text))
            rows.add(
                number,
                chain_tokens(said, rows.block_tokens or BLOCK_TOKENS),
                math.nan,
                len(said),
                reply,
                session,
            )
        said.extend(encode(frame(role, text)))
