"""Where the key for encryption at rest comes from: a file or an environment variable, never a setting or an option."""

import base64
import binascii
import os
import re
from pathlib import Path

from warmset.errors import InputError
from warmset.opening import open_input
from warmset.tiers.encrypt import KEY_BYTES

_MAX_FILE_BYTES = 4096
_HINT = "make one with `head -c 32 /dev/urandom > tier.key`; as text, 64 hexadecimal digits or base64 do too"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,200}")


def check_source(file: str | Path | None, variable: str | None) -> None:
    """Raise InputError, without reading anything, for what cannot name a key; the message shows no key."""
    if file is not None and variable is not None:
        raise InputError("the encryption key is named twice", hint="name a file or a variable, not both")
    for given in (file, variable):
        if given is not None and _from_text(str(given).encode()) is not None:
            raise InputError(
                "the encryption key itself was given, where anyone can read it",
                hint="make a new key, and name the file or the environment variable that holds it",
            )
    if variable is not None and not _VARIABLE.fullmatch(variable):
        raise InputError(
            "the environment variable for the encryption key has no plain name",
            hint="such as `WARMSET_TIER_KEY`",
        )


def read_key(file: str | Path | None = None, variable: str | None = None) -> bytes | None:
    """The 32 bytes in `file` (raw or as text) or in the environment variable (as text); None if neither is given.

    Raises InputError, which never shows what was found: it may be a key that was mistyped.
    """
    check_source(file, variable)
    if file is not None:
        where = f"key file `{file}`"
        try:
            with open_input(file) as stream:
                data = stream.read(_MAX_FILE_BYTES)
        except (OSError, ValueError) as error:
            raise InputError(f"{where}: {getattr(error, 'strerror', None) or error}", hint=_HINT) from None
        key = data if len(data) == KEY_BYTES else _from_text(data)
    elif variable is not None:
        where = f"environment variable `{variable}`"
        text = os.environ.get(variable)
        if text is None:
            raise InputError(f"{where} for the encryption key is not set", hint=_HINT)
        key = _from_text(text.encode())
    else:
        return None
    if key is None:
        raise InputError(f"{where} holds no key of {KEY_BYTES} bytes", hint=_HINT)
    return key


def _from_text(data: bytes) -> bytes | None:
    text = data.strip()
    try:
        found = (
            bytes.fromhex(text.decode())
            if len(text) == 2 * KEY_BYTES
            else base64.b64decode(text, validate=True)
        )
    except (ValueError, binascii.Error):
        return None
    return found if len(found) == KEY_BYTES else None
