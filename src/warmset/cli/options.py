"""Options that several commands share, so that they read and behave alike everywhere."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import click

from warmset.errors import InputError
from warmset.report.emit import FORMATS, TABULAR_FORMATS
from warmset.units import parse_bytes, parse_duration, parse_ratio, parse_tokens

F = TypeVar("F", bound=Callable[..., Any])


class _Parsed(click.ParamType):  # type: ignore[type-arg]  # generic only in newer click
    """A parameter read by one of the parsers of `warmset.units`."""

    def __init__(self, name: str, parse: Callable[..., Any], **settings: Any) -> None:
        self.name, self._parse, self._settings = name, parse, settings

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse text; leave values that are numbers already."""
        if not isinstance(value, str):
            return value
        what = f"value of `{param.opts[-1]}`" if param is not None else self.name
        try:
            return self._parse(value, what=what, **self._settings)
        except InputError as error:
            # `value of `--x` `-1`` reads badly: name the option first.
            raise InputError(error.message, hint=error.hint) from None


class _Count(click.ParamType):  # type: ignore[type-arg]  # generic only in newer click
    """A whole number that may still be computed with; each command says what is too small for it."""

    name = "n"
    most = 10**9

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Refuse what is no whole number, and what nobody means."""
        number: int = click.INT.convert(value, param, ctx)
        if abs(number) > self.most:
            self.fail(f"{str(value)[:40]!r} is absurdly large", param, ctx)
        return number


COUNT = _Count()
BYTES = _Parsed("size", parse_bytes)
TOKENS = _Parsed("tokens", parse_tokens)
DURATION = _Parsed("duration", parse_duration)
RATIO = _Parsed("ratio", parse_ratio)


class SectionedCommand(click.Command):
    """A command with many options: its help lists them under the titles that `section` gave."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One list for each title, in order of appearance; what has none comes last."""
        titled: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                titled.setdefault(_SECTIONS.get(parameter, "Output"), []).append(record)
        width = min(30, max(len(name) for records in titled.values() for name, _ in records))
        for title, records in titled.items():
            with formatter.section(title):
                # One width for all lists: the second column starts at one place.
                formatter.write_dl([(name.ljust(width), text) for name, text in records])


_SECTIONS: "WeakKeyDictionary[click.Parameter, str]" = WeakKeyDictionary()


def section(title: str, options: Sequence[Callable[[Any], Any]]) -> Callable[[F], F]:
    """Add `options` under `title` to the help of a SectionedCommand."""

    def decorate(function: F) -> F:
        before = len(getattr(function, "__click_params__", ()))
        for option in reversed(options):
            function = option(function)
        for parameter in function.__click_params__[before:]:  # type: ignore[attr-defined]  # where click keeps them
            _SECTIONS[parameter] = title
        return function

    return decorate


def output_options(*, tabular: bool = False) -> Callable[[F], F]:
    """Add -o/--output, --color, --quiet and --debug."""

    def decorate(function: F) -> F:
        for option in reversed(
            [
                click.option(
                    "-o",
                    "--output",
                    "form",
                    type=click.Choice(TABULAR_FORMATS if tabular else FORMATS),
                    default="table",
                    show_default=True,
                    help="Form of the output.",
                ),
                click.option(
                    "--color",
                    type=click.Choice(["auto", "always", "never"]),
                    default="auto",
                    show_default=True,
                    help="Colour on the terminal; NO_COLOR is honoured.",
                ),
                click.option("--quiet", is_flag=True, help="Say nothing on standard error but errors."),
                click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks."),
            ]
        ):
            function = option(function)
        return function

    return decorate


def talk(text: str, *, quiet: bool) -> None:
    """Say something to the person on standard error; data goes to standard output."""
    if not quiet:
        click.echo(text, err=True)
