"""What an error says: the value in backticks, and what to do in the hint."""

import errno
import re
from pathlib import Path
from typing import NamedTuple

import click

from warmset.errors import UnknownName

# What a full disk, a closed descriptor or a broken device answers to a write.
_OUTPUT_FAULTS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
_RANGE = re.compile(
    r"(\S+) is not in the range (?:(?P<low>[^<x]+)(?P<low_sign><=?))?x(?:(?P<sign>[<>]=?)(?P<high>\S+))?"
)
_CHOICE = re.compile(r"argument `\{(.*)\}`(?:\. Choose from:.*)?", re.DOTALL)


class Words(NamedTuple):
    """A message and its hint."""

    message: str
    hint: str | None


def of_click(error: click.ClickException, asked: str) -> Words:
    """Click's own usage errors in our form; `asked` is the command, where the error does not name it."""
    context = getattr(error, "ctx", None)
    see = f"see `{context.command_path if context is not None else asked} --help`"
    if type(error).__name__ == "NoArgsIsHelpError" and context is not None:
        names = ", ".join(context.command.list_commands(context))
        return Words("no command is given", f"name one: {names}; {see}")
    if isinstance(error, click.NoSuchOption):
        offered = UnknownName("option", error.option_name, error.possibilities or (), hint=see)
        return Words(offered.message, offered.hint)
    message = re.sub(r"'([^']*)'", r"`\1`", error.format_message().rstrip("."))
    message = re.sub(r"is not a valid integer( range)?$", "is not a whole number", message)
    message = re.sub(r"is not a valid float( range)?$", "is not a number", message)
    message = _RANGE.sub(_range_words, message)
    message = _CHOICE.sub(_choice_words, message)
    parameter = getattr(error, "param", None)
    message = message[:1].lower() + message[1:]
    if isinstance(error, click.MissingParameter) and isinstance(parameter, click.Option) and parameter.help:
        wanted = f"{parameter.opts[-1]} {parameter.metavar or parameter.type.name.upper()}"
        return Words(message, f"add `{wanted}`: {parameter.help.rstrip('.')}; {see}")
    return Words(message, see)


def _choice_words(match: re.Match[str]) -> str:
    """An argument that is one of a few words."""
    return "argument: one of " + ", ".join(f"`{word}`" for word in match[1].split("|"))


def _range_words(match: re.Match[str]) -> str:
    """`1<=x<=8`, `x>=1`, `x>0` and `x<=8` in words."""
    value, low, high, sign = match[1], match["low"], match["high"], match["sign"]
    if low is not None and high is not None:
        return f"`{value}` is not between {low} and {high}"
    edge = {">=": "is below", ">": "is not above", "<=": "is above", "<": "is not below"}.get(
        sign or "", "is not"
    )
    return f"`{value}` {edge} {high or low}"


def of_system(error: OSError) -> Words | None:
    """The system's refusal to read or write in our form; None where it is not about a file or standard output."""
    reason = (error.strerror or str(error)).lower()
    name = error.filename
    if isinstance(name, bytes):
        name = name.decode(errors="replace")
    if isinstance(name, str):
        if Path(name).is_relative_to(Path(__file__).parents[1]):
            return None  # a file of our own is missing
        return Words(f"cannot use `{name}`: {reason}", "check the path and its permissions")
    if error.errno in _OUTPUT_FAULTS:
        return Words(
            f"cannot write the output: {reason}", "free some space, or send the output elsewhere: `> FILE`"
        )
    return None
