"""`warmset lab`: the whole circle on a real vLLM."""

import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from warmset.cli.options import COUNT, TOKENS, output_options
from warmset.cli.trace import READING, read_options, reading_options
from warmset.errors import InputError
from warmset.report.emit import emit

if TYPE_CHECKING:
    from warmset.lab.model import Attention
    from warmset.lab.run import Listener

WORKLOADS = ("chat", "agent", "rag", "noreuse", "overflow")
BACKENDS = ("native", "native+disk", "native+warmset", "lmcache", "lmcache-inprocess")


@click.command(
    epilog="Everything that was started is ended, also on Ctrl-C. Exit status: 0 done (whatever the verdict), "
    "2 bad usage or input, or a server that cannot start, 130 interrupted."
)
@click.option(
    "--workload", type=click.Choice(WORKLOADS), default="chat", show_default=True, help="What to replay."
)
@click.option(
    "--trace", metavar="FILE", help="Replay the prefix structure of this trace instead; FILE or FORMAT:FILE."
)
@partial(reading_options, block_tokens="--trace-block-tokens")
@click.option("--url", help="Replay against this running server instead of starting one.")
@click.option(
    "--header", "headers", multiple=True, metavar="NAME: VALUE", help="With --url: a header to send."
)
@click.option(
    "--device-blocks", type=COUNT, default=160, show_default=True, help="Blocks of the device pool."
)
@click.option(
    "--tier-blocks",
    type=COUNT,
    help="Blocks that the host tier holds. [default: 400; with --url: as the server says]",
)
@click.option(
    "--block-tokens", type=COUNT, default=32, show_default=True, help="Tokens per block; multiples of 32."
)
@click.option("--blocks-per-chunk", type=COUNT, default=1, show_default=True, help="Blocks stored together.")
@click.option("--requests", type=COUNT, help="How many to replay. [default: 160, or the whole trace]")
@click.option("--output-tokens", type=TOKENS, help="Tokens to generate per request.")
@click.option("--concurrency", type=COUNT, default=1, show_default=True, help="Requests in flight together.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of everything random."
)
@click.option(
    "--backend", type=click.Choice(BACKENDS), default="native", show_default=True, help="What offloads."
)
@click.option(
    "--model",
    type=click.Path(path_type=Path),
    help="Directory of a model. [default: a small one of the lab's own]",
)
@click.option(
    "--attention",
    type=click.Choice(["full", "sliding", "mixed"]),
    default="full",
    show_default=True,
    help="Attention of the lab's own model.",
)
@click.option("--python", metavar="PATH", help="Interpreter with vLLM and warmset. [default: this one]")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port of the servers. [default: a free one]"
)
@click.option(
    "--run-dir", type=click.Path(path_type=Path), help="Where to keep scrapes, trace and logs; new or empty."
)
@output_options()
def command(
    workload: str,
    trace: str | None,
    url: str | None,
    headers: tuple[str, ...],
    device_blocks: int,
    tier_blocks: int | None,
    block_tokens: int,
    blocks_per_chunk: int,
    requests: int | None,
    output_tokens: int | None,
    concurrency: int,
    seed: int,
    backend: str,
    model: Path | None,
    attention: str,
    python: str | None,
    port: int,
    run_dir: Path | None,
    form: str,
    color: str,
    quiet: bool,
    **reading: Any,
) -> None:
    """Run a real vLLM without and with a host tier, and hold the prediction against it.

    Needs no GPU: a small model with random weights is written here, served on the CPU, and the same
    workload is replayed with offload off and on. Shows the meters of both, the verdict, and predicted
    against measured hit tokens per tier.

    \b
    Examples:
      warmset lab
      warmset lab --workload agent --device-blocks 160 --tier-blocks 400 --requests 160 --seed 7 -o json
      warmset lab --trace traffic.jsonl.gz --requests 200 --concurrency 8
      warmset lab --trace traffic.jsonl.gz --url http://localhost:8000
      warmset lab --backend native+disk --tier-blocks 100
    """
    from warmset.lab.record import Lab
    from warmset.report import lab as report

    reading["block_tokens"] = reading.pop("trace_block_tokens")
    if trace is None and (alone := [name for name in READING if reading[name]]):
        option = {"columns": "column", "block_tokens": "trace-block-tokens"}.get(alone[0], alone[0])
        raise InputError(
            f"`--{option.replace('_', '-')}` belongs to a trace", hint="add `--trace FILE`, or leave it out"
        )
    asked = Lab(
        workload,
        trace,
        device_blocks,
        tier_blocks,
        block_tokens,
        blocks_per_chunk,
        requests,
        seed,
        concurrency,
        output_tokens,
        backend,
        model,
        cast("Attention", attention),
        python,
        port,
        run_dir,
        read_options(reading),
    )
    with _Talk(quiet) as listener:
        if url is not None:
            from warmset.lab.remote import run_remote

            result = run_remote(asked, url, dict(_header(text) for text in headers), listener)
        else:
            from warmset.lab.run import run_lab

            result = run_lab(asked, report.baseline_of, listener)
    text = report.payload(result)
    from warmset.report.data import to_json

    (result.run_dir / "result.json").write_text(to_json(text), encoding="utf-8")
    emit(form, lambda: text, lambda: report.document(result), color=color)


class _Talk:
    """Phases as lines and requests as a bar, on standard error."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet

    def __enter__(self) -> "Listener":
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        from warmset.lab.run import Listener

        console = Console(file=sys.stderr, quiet=self._quiet)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=self._quiet or not sys.stderr.isatty(),
        )
        self._bar.start()
        self._task = self._bar.add_task("requests", total=None, visible=False)

        def phase(text: str) -> None:
            self._bar.update(self._task, visible=False)
            console.print(f"{text} …", highlight=False, markup=False)

        def progress(done: int, total: int) -> None:
            self._bar.update(self._task, completed=done, total=total, visible=done < total)

        return Listener(phase, progress)

    def __exit__(self, *error: object) -> None:
        self._bar.stop()


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    hint = "write it like `Authorization: Bearer KEY`"
    if not colon or not name.strip():
        raise InputError(f"header `{text}` has no name", hint=hint)
    if not re.fullmatch(r"[\w!#$%&'*+.^`|~-]+", name.strip(), re.ASCII):
        raise InputError(f"`{name.strip()}` is not a name of a header", hint=hint)
    if not (value.isascii() and value.strip().isprintable()):
        raise InputError(f"the value of header `{name.strip()}` has letters that no header takes", hint=hint)
    return name.strip(), value.strip()
