"""`warmset export`: dashboards, recording rules and alerts for a server version."""

from collections.abc import Callable

import click

from warmset.cli.options import F


@click.group(epilog="Exit status: 0 done, 2 bad usage or input.")
def command() -> None:
    """Write a Grafana dashboard, recording rules or alerts, from the metrics that the named version exports.

    \b
    Examples:
      warmset export grafana --engine vllm@0.32 > dashboard.json
      warmset export rules --engine vllm@0.32 > warmset-rules.yaml
      warmset export alerts --engine vllm@0.32 > warmset-alerts.yaml
    """


def _engine_option(function: F) -> F:
    decorate: Callable[[F], F] = click.option(
        "--engine", default="vllm", show_default=True, metavar="SERVER@VERSION", help="Server and version."
    )
    debug: Callable[[F], F] = click.option(
        "--debug", is_flag=True, expose_value=False, help="Show tracebacks."
    )
    return decorate(debug(function))


@command.command()
@_engine_option
def grafana(engine: str) -> None:
    """Write an importable Grafana dashboard (JSON).

    \b
    Example:
      warmset export grafana --engine vllm@0.32 > dashboard.json
    """
    from warmset.report.data import to_json
    from warmset.report.grafana import dashboard
    from warmset.servers import engine as read

    click.echo(to_json(dashboard(read(engine))), nl=False)


@command.command()
@_engine_option
def rules(engine: str) -> None:
    """Write Prometheus recording rules (YAML).

    \b
    Example:
      warmset export rules --engine sglang@0.5.23 > warmset-rules.yaml
    """
    from warmset.report.alerts import rules_yaml
    from warmset.servers import engine as read

    click.echo(rules_yaml(read(engine)), nl=False)


@command.command()
@_engine_option
def alerts(engine: str) -> None:
    """Write Prometheus alerts with their runbooks (YAML).

    \b
    Example:
      warmset export alerts --engine vllm@0.32 > warmset-alerts.yaml
    """
    from warmset.report.alerts import alerts_yaml
    from warmset.servers import engine as read

    click.echo(alerts_yaml(read(engine)), nl=False)
