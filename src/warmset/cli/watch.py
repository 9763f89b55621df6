"""`warmset watch`: the three meters of running servers, live."""

from collections import deque
from typing import TYPE_CHECKING, Any

import click

from warmset.cli.options import BYTES, DURATION, output_options, talk
from warmset.cli.sources import access_from, matchers_from, some, source_options
from warmset.errors import InputError

if TYPE_CHECKING:
    from warmset.meters.watching import Frame


@click.command(epilog="Exit status: 0 done, 2 bad usage or input, 130 interrupted.")
@click.argument("servers", nargs=-1, metavar="[SERVER]...")
@click.option("--every", type=DURATION, default=5.0, help="Time between sweeps.  [default: 5s]")
@click.option(
    "--window",
    "length",
    type=DURATION,
    default=300.0,
    help="Length of the sliding window.  [default: 5m]",
)
@click.option("--once", is_flag=True, help="Sweep twice, print one frame and end.")
@click.option("--tier", type=BYTES, callback=some, metavar="SIZE", help="Capacity of the tier of one engine.")
@click.option("--engine", metavar="SERVER@VERSION", help="Server and version (else told from the metrics).")
@click.option(
    "--threshold",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Change a threshold; may be repeated.",
)
@source_options
@output_options()
def command(servers: tuple[str, ...], form: str, color: str, quiet: bool, **options: Any) -> None:
    """Watch the three meters, the verdict and every SERVER in the terminal; end with Ctrl-C.

    \b
    Examples:
      warmset watch http://localhost:8000
      warmset watch dns:vllm-headless.prod.svc:8000 --every 10s --window 15m
      warmset watch http://localhost:8000 --once -o json
    """
    import time

    from warmset.meters.live import snapshot_of
    from warmset.meters.sources import addresses
    from warmset.meters.thresholds import with_settings
    from warmset.meters.watching import Watch
    from warmset.report.emit import emit
    from warmset.report.watch import document, payload
    from warmset.servers import engine

    how, matchers = access_from(options), matchers_from(options["match"])
    every = max(0.5, options["every"])
    urls = addresses(servers, options["targets"])
    if not urls:
        raise InputError("no server was given", hint="give an address such as `http://localhost:8000`")
    if form != "table" and not options["once"]:
        raise InputError(f"`-o {form}` shows one frame", hint="add `--once`")
    named = engine(options["engine"]) if options["engine"] else None
    watch = Watch(options["length"], named, options["tier"], with_settings(options["settings"]))
    watch.add(snapshot_of(urls, how, matchers))
    if options["once"]:
        talk(f"the first frame comes after {every:g} s", quiet=quiet)
        time.sleep(every)
        frame = watch.add(snapshot_of(urls, how, matchers))
        assert frame is not None
        emit(form, lambda: payload(frame), lambda: document(frame), color=color)
        return
    talk(f"the first frame comes after {every:g} s; end with Ctrl-C", quiet=quiet)
    _show(watch, urls, how, matchers, every, color)


def _show(watch: Any, urls: Any, how: Any, matchers: Any, every: float, color: str) -> None:
    """Sweep and redraw until interrupted; a sweep in which no server answers is shown, not fatal."""
    import sys
    import time

    from rich.live import Live

    from warmset.meters.live import snapshot_of
    from warmset.report.text import console
    from warmset.report.watch import live

    history: deque[Frame] = deque(maxlen=40)
    with Live(console=console(sys.stdout, color), auto_refresh=False) as screen:
        while True:
            time.sleep(every)
            try:
                frame = watch.add(snapshot_of(urls, how, matchers))
            except InputError as error:
                screen.update(f"error: {error.message}", refresh=True)
                continue
            screen.update(live(frame, tuple(history)), refresh=True)
            history.append(frame)
