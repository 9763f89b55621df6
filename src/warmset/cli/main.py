"""The `warmset` command: a lazy list of commands, and the one place where errors become exit codes."""

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import click

from warmset import __version__
from warmset.cli.interrupt import heard
from warmset.cli.streams import give_up_output, prepare_streams
from warmset.cli.words import of_click, of_system
from warmset.errors import EXIT_DONE, EXIT_INTERRUPTED, InputError, WarmsetError
from warmset.report.visible import brief, visible

# name → (module, one line of help). Modules are imported only when their command runs: `--help` stays fast.
COMMANDS: dict[str, tuple[str, str]] = {
    "plan": ("warmset.cli.plan", "Decide whether to offload KV cache, and size the tier."),
    "footprint": ("warmset.cli.footprint", "Show what a model's KV cache costs, with the formula."),
    "launch": ("warmset.cli.launch", "Write exactly what to type, for a server version."),
    "check": ("warmset.cli.check", "Check commands, manifests and logs for KV-offload traps."),
    "curve": ("warmset.cli.curve", "Show what hit rate each capacity buys on real traffic."),
    "measure": ("warmset.cli.measure", "Judge an offload tier from a server's metrics."),
    "watch": ("warmset.cli.watch", "Watch the three meters of running servers."),
    "export": ("warmset.cli.export", "Write dashboards, recording rules and alerts for a server version."),
    "snapshot": ("warmset.cli.snapshot", "Save what servers export now, for a later `measure`."),
    "tier": ("warmset.cli.tier", "Look into, measure and tend a store below RAM."),
    "trace": ("warmset.cli.trace", "Look at, convert, generate and anonymise traffic."),
    "lab": ("warmset.cli.lab", "Run the whole circle on a real vLLM, without a GPU."),
    "completion": ("warmset.cli.completion", "Print the completion script of a shell."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the circle, not of the alphabet."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module and return its `command`."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name][0])
        command: click.Command = module.command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Like click's, with the nearest command names offered."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from warmset.errors import UnknownName

            raise UnknownName("command", args[0], COMMANDS, hint="see `warmset --help`")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_line) for name, (_, help_line) in COMMANDS.items()])


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit status: 0 done, 1 a gate failed, 2 bad input, 3 undecided, 70 a bug, 130 interrupted.",
)
@click.version_option(__version__, "--version", message="warmset %(version)s")
def cli() -> None:
    """KV-cache offloading for self-hosted LLM servers as a measured decision: plan it, run it, prove it.

    \b
    Examples:
      warmset plan llama-3.1-8b --gpu h100-80gb --sessions 200 --context 8192 --host-ram 512GiB
      warmset footprint deepseek-v3 --tp 8 --context 32768
      warmset launch llama-3.1-8b --tier 230GiB --engine vllm@0.32
    """


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments[: arguments.index("--") if "--" in arguments else None]
    try:
        prepare_streams()
        result = cli.main(args=arguments, prog_name="warmset", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else EXIT_DONE
    except click.exceptions.Exit as error:
        return error.exit_code
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, BrokenPipeError):
            # The reader went away (`| head`): not an error, and nothing more may be written.
            give_up_output()
        if _interrupted(error):
            return _complain(EXIT_INTERRUPTED, "interrupted", None)
        if isinstance(error, BrokenPipeError):
            return EXIT_DONE
        if debug:
            raise
        return _complain(*_said(error, arguments))


def _said(error: BaseException, arguments: Sequence[str]) -> tuple[int, str, str | None]:
    """The exit code of an error, its message and its hint."""
    if isinstance(error, WarmsetError):
        return error.exit_code, error.message, error.hint
    if isinstance(error, click.ClickException):
        asked = "warmset " + arguments[0] if arguments and arguments[0] in COMMANDS else "warmset"
        return InputError.exit_code, *of_click(error, asked)
    words = of_system(error) if isinstance(error, OSError) else None
    if words is not None:
        return InputError.exit_code, *words
    said = f"internal error: {type(error).__name__}: {error}"
    return WarmsetError.exit_code, said, "this is a bug; run again with `--debug`"


def _interrupted(error: BaseException) -> bool:
    """Whether Ctrl-C is what became this error.

    Python before 3.12 renames all that fails in the body of a class, an import that fails at that moment ends in
    TypeError, and a library may put an error of its own in its place.
    """
    if isinstance(error, (KeyboardInterrupt, click.Abort)) or heard():
        return True
    return error.__cause__ is not None and _interrupted(error.__cause__)


def _complain(code: int, message: str, hint: str | None) -> int:
    """Say on standard error what is wrong and what to do; returns `code`."""
    try:
        sys.stdout.flush()
    except OSError:
        give_up_output()
    said = visible(brief(message)) + (f"\n\nhint: {visible(hint)}" if hint else "")
    click.echo(f"error: {said}", err=True)
    return code
