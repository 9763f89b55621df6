"""`warmset snapshot`: save what servers export now."""

from typing import Any

import click

from warmset.cli.options import talk
from warmset.cli.sources import access_from, matchers_from, source_options
from warmset.errors import InputError


@click.command(
    epilog="Exit status: 0 done (servers that failed are listed), 2 bad usage or input, or no server answered."
)
@click.argument("servers", nargs=-1, metavar="[SERVER]...")
@source_options
@click.option("--quiet", is_flag=True, help="Say nothing on standard error but errors.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
def command(servers: tuple[str, ...], quiet: bool, **options: Any) -> None:
    """Write one page of metrics of all SERVERs to standard output, with the time of the scrape.

    Two of them make a window for `warmset measure`. Each series gets the label `instance`.

    \b
    Examples:
      warmset snapshot http://localhost:8000 > before.prom
      warmset snapshot dns:vllm-headless.prod.svc:8000 --timeout 5s > before.prom
      warmset snapshot --targets fleet.txt > before.prom
    """
    from warmset.meters.exposition import Sample
    from warmset.meters.live import snapshot_of
    from warmset.meters.snapshot import SCRAPE_TIME, write_exposition
    from warmset.meters.sources import addresses

    how, matchers = access_from(options), matchers_from(options["match"])
    urls = addresses(servers, options["targets"])
    if not urls:
        raise InputError("no server was given", hint="give an address such as `http://localhost:8000`")
    snapshot = snapshot_of(urls, how, matchers)
    for name, error in snapshot.failures:
        talk(f"{name}: {error}", quiet=quiet)
    assert snapshot.time_seconds is not None
    snapshot.samples[SCRAPE_TIME] = [Sample((), snapshot.time_seconds)]
    snapshot.types[SCRAPE_TIME] = "gauge"
    click.echo(write_exposition(snapshot), nl=False)
