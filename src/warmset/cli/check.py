"""`warmset check`: lint commands, scripts, manifests and logs of LLM servers for KV-offload traps."""

import sys

import click

from warmset.cli.options import BYTES, talk
from warmset.errors import GateFailed, InputError, UnknownName

_FORMS = ("table", "json", "yaml", "md", "sarif", "github")


class _Check(click.Command):
    """Keeps what stands behind `--` apart: it is a command to be checked, not a list of paths."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["warmset.command"] = ()
        if "--" in args:
            at = args.index("--")
            ctx.meta["warmset.command"] = tuple(args[at + 1 :])
            if not args[at + 1 :]:
                raise InputError(
                    "nothing stands behind `--`", hint="give a command: `warmset check -- vllm serve …`"
                )
            args = args[:at]
        return super().parse_args(ctx, args)


@click.command(
    cls=_Check,
    short_help="Check commands, manifests and logs for KV-offload traps.",
    epilog="Exit status: 0 nothing at or above --fail-on, 1 a finding reached it, 2 bad usage or input.",
)
@click.argument("paths", nargs=-1, metavar="[PATH]... [-- COMMAND...]")
@click.option(
    "--engine", metavar="SERVER@VERSION", help="Check as this version, such as vllm@0.32 or sglang@0.5.23."
)
@click.option("--lmcache", metavar="VERSION", help="Version of LMCache beside it, such as 0.5.6.")
@click.option("--host-ram", type=BYTES, metavar="SIZE", help="Memory of the host (bare number: GiB).")
@click.option("--gpus", type=click.IntRange(1, 4096), metavar="N", help="Accelerators of one host.")
@click.option("--url", metavar="URL", help="Ask a running server instead: its /metrics and models.")
@click.option("--log", "logs", multiple=True, metavar="FILE", help="Start-up log that belongs to the rest.")
@click.option(
    "--min-severity",
    type=click.Choice(("error", "warning", "note")),
    default="note",
    show_default=True,
    help="Show findings from this severity on.",
)
@click.option(
    "--fail-on",
    type=click.Choice(("error", "warning", "note", "never")),
    default="error",
    show_default=True,
    help="Exit with 1 when a finding reaches this severity.",
)
@click.option(
    "--skip-others",
    is_flag=True,
    help="Pass over files that are no input; nothing to check is then no error (for hooks).",
)
@click.option("--explain", metavar="RULE", help="Print what a rule says and why (`all` lists them).")
@click.option("--fix", is_flag=True, help="Print certain corrections as a diff; files are not changed.")
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(_FORMS),
    default="table",
    show_default=True,
    help="Form of the output.",
)
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Colour on the terminal; NO_COLOR is honoured.",
)
@click.option("--quiet", is_flag=True, help="Say nothing on standard error but errors.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[str, ...],
    engine: str | None,
    lmcache: str | None,
    host_ram: int | None,
    gpus: int | None,
    url: str | None,
    logs: tuple[str, ...],
    min_severity: str,
    fail_on: str,
    skip_others: bool,
    explain: str | None,
    fix: bool,
    form: str,
    color: str,
    quiet: bool,
) -> None:
    """Find the traps of KV offload before a server runs.

    PATH is a script, an env file, a Dockerfile, a compose file, a Kubernetes manifest, Helm values of
    production-stack, a kustomize patch, a systemd unit, an LMCache YAML, a start-up log, or a directory of these;
    `-` reads standard input. A command goes behind `--`. Nothing is executed and nothing is changed.

    \b
    Examples:
      warmset check -- vllm serve meta-llama/Llama-3.1-8B-Instruct --cpu-offload-gb 40
      warmset check --engine vllm@0.26 --host-ram 256GiB deploy/ values.yaml start.sh
      warmset check -o sarif deploy/ > warmset.sarif
      warmset check --explain weights-not-kv
    """
    if explain is not None:
        _explain(explain)
        return
    from warmset.checks import Facts, run
    from warmset.checks.collect import collect
    from warmset.checks.inputs.shellfile import read_command
    from warmset.checks.running import ask
    from warmset.checks.text import NothingToCheck

    given: tuple[str, ...] = ctx.meta["warmset.command"]
    parsed = [read_command(given)] if given else []
    if url is not None:
        parsed.append(ask(url))
    if not paths and not parsed and not logs:
        raise InputError(
            "nothing to check",
            hint="give files, a directory, `-`, or a command: `warmset check -- vllm serve …`",
        )
    stdin = sys.stdin.buffer.read(9 * 2**20) if "-" in paths else None
    facts = Facts(
        host_ram, gpus, _engine(engine), _engine(f"lmcache@{lmcache}") if lmcache is not None else None
    )
    inputs = collect(paths, stdin, parsed, logs=logs, skip_others=skip_others)
    try:
        result = run(inputs, facts)
    except NothingToCheck:
        if not skip_others:
            raise
        talk("nothing to check", quiet=quiet)
        return
    if fix:
        from warmset.checks.fix import diff

        corrections = diff(result.findings, inputs)
        sys.stdout.write(corrections)
        if not corrections:
            talk("no finding has a certain correction; without --fix they are listed", quiet=quiet)
        return
    _write(result, form, min_severity, color)
    from warmset.checks.findings import SEVERITIES, at_least

    grave = sorted(
        (f for f in result.findings if at_least(f.severity, fail_on)),
        key=lambda f: SEVERITIES.index(f.severity),
    )
    if grave:
        first = grave[0]
        more = f" and {len(grave) - 1} more" if len(grave) > 1 else ""
        raise GateFailed(
            f"`--fail-on {fail_on}` is reached: `{first.rule}` at {first.place.file}:{first.place.line}{more}",
            hint=f"`warmset check --explain {first.rule}` says why",
        )


def _engine(text: str | None):  # type: ignore[no-untyped-def]  # the record's module is imported late
    from warmset.servers import engine

    return engine(text) if text is not None else None


def _write(result, form: str, min_severity: str, color: str) -> None:  # type: ignore[no-untyped-def]
    from dataclasses import replace

    from warmset.checks.findings import at_least
    from warmset.checks.rules import RULES

    shown = replace(result, findings=tuple(f for f in result.findings if at_least(f.severity, min_severity)))
    if form == "sarif":
        from warmset.report.data import to_json
        from warmset.report.sarif import sarif

        sys.stdout.write(to_json(sarif(shown, RULES)))
    elif form == "github":
        from warmset.report.github import github

        sys.stdout.write(github(shown))
    else:
        from warmset.report.check import document, payload
        from warmset.report.emit import emit

        emit(form, lambda: payload(shown), lambda: document(shown), color=color)
    sys.stdout.flush()


def _explain(name: str) -> None:
    from warmset.checks.rules import BY_NAME, RULES
    from warmset.report.check import explanation, index

    if name == "all":
        sys.stdout.write(index(RULES))
        return
    rule = BY_NAME.get(name.strip())
    if rule is None:
        raise UnknownName("rule", name[:60], BY_NAME, hint="`warmset check --explain all` lists them")
    sys.stdout.write(explanation(rule))
