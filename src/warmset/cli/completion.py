"""`warmset completion`: the completion script of a shell."""

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    Example:
      warmset completion bash > /etc/bash_completion.d/warmset
    """
    from warmset.cli.main import cli

    completion = get_completion_class(shell)
    assert completion is not None
    click.echo(completion(cli, {}, "warmset", "_WARMSET_COMPLETE").source())
