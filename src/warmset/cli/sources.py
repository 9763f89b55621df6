"""Options that say where metrics come from, for `measure`, `snapshot` and `watch`."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from warmset.cli.options import DURATION, F
from warmset.errors import InputError
from warmset.meters.http import Access, access

if TYPE_CHECKING:
    from warmset.meters.matchers import Matcher

_FILE = click.Path(dir_okay=False, path_type=Path)


def source_options(function: F) -> F:
    """Add --targets, --match and the access options."""
    options: list[Callable[[F], F]] = [
        click.option("--targets", type=_FILE, metavar="FILE", help="File with one address per line."),
        click.option(
            "--match",
            "match",
            multiple=True,
            metavar="LABEL=VALUE",
            help="Only series with this label, such as model_name=llama; also !=, =~, !~; may be repeated.",
        ),
        click.option(
            "--token-file", type=_FILE, metavar="FILE", help="File with a bearer token (else WARMSET_TOKEN)."
        ),
        click.option(
            "--basic-auth-file",
            type=_FILE,
            metavar="FILE",
            help="File with user:password (else WARMSET_BASIC_AUTH).",
        ),
        click.option("--ca-file", type=_FILE, metavar="FILE", help="Certificate authority of the servers."),
        click.option("--timeout", type=DURATION, default=10.0, help="Bound of one answer.  [default: 10s]"),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def some(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """Callback of options that must be a number above zero."""
    if value is not None and not 0 < value < math.inf:
        name = parameter.opts[-1]
        raise InputError(
            f"`{name} {value:g}` is not a number above zero", hint=f"leave `{name}` out if unknown"
        )
    return value


def access_from(options: dict[str, Any]) -> Access:
    """Take the access options out of a command's arguments."""
    return access(
        token_file=options.pop("token_file"),
        basic_auth_file=options.pop("basic_auth_file"),
        ca_file=options.pop("ca_file"),
        timeout_seconds=options.pop("timeout"),
    )


def matchers_from(texts: tuple[str, ...]) -> "tuple[Matcher, ...]":
    """The matchers of `--match`."""
    from warmset.meters.matchers import parse

    return parse(texts)
