"""Turns prompt text into tokens: with a tokenizer file that the user names, or one token per byte."""

from collections.abc import Callable, Sequence
from pathlib import Path

from warmset.errors import InputError
from warmset.traces.rows import Problems

Encode = Callable[[str], Sequence[int]]


def encoder(tokenizer: str | Path | None, problems: Problems) -> Encode:
    """A function from text to token ids."""
    if tokenizer is None:
        problems.note("one token per byte of text: name a `--tokenizer` for the model's own counts")
        return lambda text: list(text.encode("utf-8", "replace"))
    path = Path(tokenizer)
    if path.is_dir():
        path = path / "tokenizer.json"
    if not path.is_file():
        raise InputError(f"no tokenizer file `{path}`", hint="name the model's `tokenizer.json`")
    from tokenizers import Tokenizer

    try:
        loaded = Tokenizer.from_file(str(path))
    except Exception as error:  # noqa: BLE001  # the library raises bare Exception
        raise InputError(f"`{path}` is not a tokenizer file: {error}") from None

    def encode(text: str) -> Sequence[int]:
        # JSON can escape half of a character; a tokenizer takes whole ones only.
        whole = text.encode("utf-8", "replace").decode("utf-8")
        ids: Sequence[int] = loaded.encode(whole, add_special_tokens=False).ids
        return ids

    return encode
