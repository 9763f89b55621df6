"""`warmset measure`: is the tier helping, hurting or doing nothing?"""

import json
import math
from collections.abc import Callable, Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from warmset.cli.options import BYTES, DURATION, output_options, talk
from warmset.cli.sources import access_from, matchers_from, some, source_options
from warmset.errors import GateFailed, InputError, Undecided, UnknownName
from warmset.opening import open_input

if TYPE_CHECKING:
    from warmset.meters.window import Window

_MAX_BASELINE_BYTES = 16 * 2**20
_MAX_LINE, _MAX_LOG = 20_000, 512 * 2**20  # characters
_TEXT_HINT = "give the server's log as it wrote it, as UTF-8 text; unpack a compressed one first"
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(
    epilog="Exit status: 0 done, 1 the verdict is one of --fail-on, 2 bad usage or input, 3 undecided. "
    "`no_tier` exits 0, and --save writes whatever the verdict is."
)
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@click.option(
    "--for",
    "duration",
    type=DURATION,
    metavar="TIME",
    help="Sample running servers for this long, such as 5m.",
)
@click.option("--baseline", type=_FILE, metavar="FILE", help="Compare with a measurement that --save wrote.")
@click.option(
    "--save", type=_FILE, metavar="FILE", help="Write this measurement as JSON, to be a --baseline later."
)
@click.option(
    "--tier",
    type=BYTES,
    callback=some,
    metavar="SIZE",
    help="Capacity of the tier of one engine, such as 64GiB.",
)
@click.option(
    "--bytes-per-token",
    type=float,
    callback=some,
    help="KV bytes per token, over all ranks.",
)
@click.option("--chunk-tokens", type=float, callback=some, help="Tokens per chunk of the tier.")
@click.option(
    "--log",
    "log_file",
    type=_FILE,
    metavar="FILE",
    help="The server's log: pool and tier sizes, known faults.",
)
@click.option(
    "--engine",
    metavar="SERVER@VERSION",
    help="Server and version, such as vllm@0.32 (else told from the metrics).",
)
@click.option(
    "--fail-on", metavar="VERDICTS", default="", help="Exit 1 on these verdicts, such as hurting,inert."
)
@click.option(
    "--threshold",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Change a threshold; may be repeated.",
)
@click.option("--prometheus", metavar="URL", help="Read from a Prometheus-compatible API.")
@click.option(
    "--before", metavar="RANGE", help="With --prometheus: the baseline's window, such as 2h..1h (ago)."
)
@click.option("--after", metavar="RANGE", help="With --prometheus: the window to judge, such as 30m..now.")
@click.option(
    "--changed-at", metavar="TIME", help="With --prometheus: compare the time before and after this moment."
)
@source_options
@output_options()
def command(sources: tuple[str, ...], form: str, color: str, quiet: bool, **options: Any) -> None:
    """Judge an offload tier from what the server exports: helping, hurting, or doing nothing, and what to do next.

    SOURCE is two saved scrapes (start, end), one saved scrape (since the server started), or addresses of running
    servers: `http://host:8000`, `host:8000`, or `dns:NAME:PORT` for every address behind a name.

    \b
    Examples:
      warmset measure before.start.prom before.end.prom --save before.json
      warmset measure after.start.prom after.end.prom --baseline before.json -o json
      warmset measure http://localhost:8000 --for 5m --baseline before.json --fail-on hurting,inert
      warmset measure --prometheus http://prometheus:9090 --match job=vllm --before 2h..1h --after 30m..now
    """
    from warmset.meters import baseline as baselines
    from warmset.meters.judge import judge
    from warmset.meters.log import read_log
    from warmset.meters.measurement import Measurement
    from warmset.meters.meters import meters
    from warmset.meters.thresholds import with_settings
    from warmset.report.data import to_json
    from warmset.report.emit import emit
    from warmset.report.measure import document, payload, window_payload
    from warmset.servers import engine

    gate = _gate(options["fail_on"])
    thresholds = with_settings(options["settings"])
    named = engine(options["engine"]) if options["engine"] else None
    base = None
    if options["baseline"]:
        base = _read_baseline(options["baseline"], _how_a_baseline_is_made(sources, options))
    log = read_log(_lines(options["log_file"])) if options["log_file"] else None
    extra = {
        "tier_bytes": options["tier"],
        "bytes_per_token": options["bytes_per_token"],
        "chunk_tokens": options["chunk_tokens"],
        "log": log,
    }
    before, now = _windows(sources, options, quiet)
    if before is not None:
        if base is not None:
            raise InputError("both `--baseline` and `--before` name a baseline", hint="give one of them")
        earlier = meters(before, named, **extra)
        base = baselines.of(
            earlier, {"verdict": judge(earlier, None, None, thresholds).name, **window_payload(earlier)}
        )
    m = meters(now, named, **extra)
    record = Measurement(m, judge(m, base, None, thresholds), base)
    if options["save"]:
        _save(options["save"], to_json(payload(record)))
    emit(form, lambda: payload(record), lambda: document(record), color=color)
    verdict = record.verdict
    if verdict.name == "undecided":
        raise Undecided(
            f"undecided: {verdict.summary}", hint=verdict.next_steps[0].text if verdict.next_steps else None
        )
    if verdict.name in gate:
        raise GateFailed(
            f"the verdict is `{verdict.name}`, one of `--fail-on {options['fail_on']}`",
            hint=verdict.next_steps[0].text,
        )


def _windows(
    sources: tuple[str, ...], options: dict[str, Any], quiet: bool
) -> "tuple[Window | None, Window]":
    """(window of the baseline or None, window to judge), from whichever source was named."""
    from warmset.addresses import without_credentials
    from warmset.meters import live
    from warmset.meters.snapshot import select
    from warmset.meters.sources import addresses, is_address, read_file
    from warmset.meters.window import window

    how, matchers = access_from(options), matchers_from(options["match"])
    if options["prometheus"]:
        from warmset.meters.prometheus import windows

        if sources or options["targets"] or options["duration"]:
            raise InputError(
                "`--prometheus` takes no other source",
                hint="name servers by `--match`, such as `--match job=vllm`",
            )
        return windows(
            options["prometheus"], how, matchers, options["before"], options["after"], options["changed_at"]
        )
    if options["before"] or options["after"] or options["changed_at"]:
        raise InputError(
            "`--before`, `--after` and `--changed-at` need `--prometheus URL`",
            hint="or give two saved scrapes",
        )
    remote = [s for s in sources if is_address(s)]
    if options["targets"] or (remote and len(remote) == len(sources)):
        urls = addresses(remote, options["targets"])
        if options["duration"]:
            return None, _watched(
                lambda tick: live.sample(urls, how, options["duration"], matchers, tick),
                options["duration"],
                quiet,
            )
        if not quiet:
            talk(
                "reading the counters since the servers started; for the traffic of now, add `--for 5m`",
                quiet=quiet,
            )
        return None, window(None, live.snapshot_of(urls, how, matchers))
    if remote:
        raise InputError(
            f"files and addresses are mixed: `{without_credentials(remote[0])}`",
            hint="give two saved scrapes, or addresses only",
        )
    if options["duration"]:
        raise InputError(
            "`--for` needs running servers", hint="give an address such as `http://localhost:8000`"
        )
    if not sources:
        raise InputError(
            "no source was given",
            hint="give `START.prom END.prom`, or an address such as `http://localhost:8000`",
        )
    if len(sources) > 2:
        raise InputError(
            f"{len(sources)} files are too many: `{sources[2]}`",
            hint="give the scrape at the start and the one at the end",
        )
    snapshots = [select(read_file(path), matchers) for path in sources]
    return None, window(snapshots[0] if len(snapshots) == 2 else None, snapshots[-1])


def _watched(work: "Callable[[Callable[[float], None]], Window]", seconds: float, quiet: bool) -> "Window":
    """Run `work` under a progress bar on standard error."""
    import sys

    if quiet or not sys.stderr.isatty():
        talk(f"sampling for {seconds:g} s", quiet=quiet)
        return work(lambda _: None)
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("sampling", total=seconds)
        return work(lambda done: progress.update(task, completed=done))


def _gate(text: str) -> frozenset[str]:
    from warmset.meters.verdict import NAMES

    wanted = [name.strip() for name in text.split(",") if name.strip()]
    for name in wanted:
        if name not in NAMES:
            raise UnknownName("verdict", name, NAMES, hint=f"known are {', '.join(NAMES)}")
    return frozenset(wanted)


def _read_baseline(path: Path, hint: str) -> Any:
    from warmset.meters.baseline import parse

    try:
        with open_input(path) as stream:
            raw = stream.read(_MAX_BASELINE_BYTES + 1)
    except OSError as error:
        raise InputError(f"baseline `{path}` cannot be read: {error.strerror}", hint=hint) from None
    if len(raw) > _MAX_BASELINE_BYTES:
        raise InputError(f"baseline `{path}` is too large to be a measurement", hint=hint)
    if not raw.strip():
        raise InputError(f"baseline `{path}` is empty", hint=hint)
    try:
        # What --save wrote holds neither; both would come out again in this measurement's JSON.
        data = json.loads(raw, parse_constant=_refused, parse_float=_finite)
    except (ValueError, RecursionError):
        raise InputError(f"baseline `{path}` is not JSON", hint=hint) from None
    return parse(data, source=str(path), hint=hint)


def _how_a_baseline_is_made(sources: tuple[str, ...], options: dict[str, Any]) -> str:
    """The command for the source that is measured now; a file that is there already is not written over."""
    from warmset.addresses import without_credentials
    from warmset.meters.sources import is_address

    where, path = "START.prom END.prom", options["baseline"]
    if options["prometheus"]:
        where = f"--prometheus {without_credentials(options['prometheus'])} --after 2h..1h"
    elif options["targets"]:
        where = f"--targets {options['targets']} --for 10m"
    elif sources and all(map(is_address, sources)):
        where = " ".join(map(without_credentials, sources)) + " --for 10m"
    save = "before.json" if path.exists() else path
    return (
        "a baseline is a measurement that was saved before the change, such as without the tier: "
        f"`warmset measure {where} --save {save}`"
    )


def _refused(text: str) -> Any:
    raise ValueError(text)


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refused(text)


def _lines(path: Path) -> Iterator[str]:
    """The lines of a log, each cut at a bound; a file without end is refused, and one that is not text."""
    try:
        # One character that was cut in the middle, or a prompt in another encoding, is no reason to lose the log; and a
        # log that was emptied while the server wrote it begins with zeros.
        with TextIOWrapper(open_input(path), encoding="utf-8", errors="replace") as stream:
            read, begun, empty = 0, False, True
            while line := stream.readline(_MAX_LINE):
                read += len(line)
                if empty:
                    line = line.lstrip("\0\ufeff \t\r\n")
                    empty = not line
                if "\0" in line:
                    raise InputError(f"log `{path}` is binary", hint=_TEXT_HINT)
                if read > _MAX_LOG:
                    raise InputError(
                        f"log `{path}` is larger than {_MAX_LOG // 2**20} MiB",
                        hint="give its beginning, such as `head -n 100000 server.log`",
                    )
                if empty:
                    continue
                if not begun:
                    yield line
                begun = not line.endswith("\n")
            if empty:
                raise InputError(
                    f"log `{path}` is empty", hint="give the server's log file, or leave `--log` out"
                )
    except OSError as error:
        raise InputError(
            f"log `{path}` cannot be read: {error.strerror}", hint="give the server's log file"
        ) from None


def _save(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"`{path}` cannot be written: {error.strerror}", hint="name a file in a folder that exists"
        ) from None
