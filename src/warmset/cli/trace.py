"""`warmset trace`: look at, convert, generate and anonymise traffic."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import click

from warmset.cli.options import BYTES, TOKENS, output_options
from warmset.cli.progress import progress

F = TypeVar("F", bound=Callable[..., Any])
_EPILOG = "Exit status: 0 done, 2 bad usage or input (with the line at fault)."
_FORMATS = (
    "SOURCE is a file or `format:file`; .gz and .zst are read too. Formats: mooncake, bailian, agent, ragpulse,"
    " warmset, kv-events, openai, sharegpt, csv, parquet; without a name the content tells."
)


@click.group(epilog=_EPILOG)
def command() -> None:
    """Look at, convert, generate and anonymise traffic.

    \b
    Examples:
      warmset trace info mooncake:conversation_trace.jsonl.gz
      warmset trace convert bailian:qwen_traceA.jsonl trace.jsonl.gz
      warmset trace generate agent agents.jsonl.gz --sessions 50 --seed 1
      warmset trace anonymise requests.jsonl.gz shareable.jsonl.gz
    """


READING = ("block_tokens", "time_unit", "skip_bad", "sort", "rechain", "max_size", "tokenizer", "columns")


def reading_options(function: F, *, block_tokens: str = "--block-tokens") -> F:
    """What a user may say about a trace that the file does not say; `block_tokens` names that option."""
    for option in reversed(
        [
            click.option(
                block_tokens, type=TOKENS, help="Tokens per block of the trace, where the file does not say."
            ),
            click.option(
                "--time-unit", type=click.Choice(["s", "ms", "us", "ns"]), help="Unit of times in the file."
            ),
            click.option("--skip-bad", is_flag=True, help="Leave out lines that cannot be used; count them."),
            click.option("--sort", is_flag=True, help="Order requests by time."),
            click.option("--rechain", is_flag=True, help="Ids are hashes of single blocks: chain them."),
            click.option("--max-size", type=BYTES, help="Bound on the size after decompression."),
            click.option(
                "--tokenizer",
                type=click.Path(exists=True),
                help="The model's tokenizer.json, for formats that hold text.  [default: one token per byte]",
            ),
            click.option(
                "--column",
                "columns",
                multiple=True,
                metavar="OURS=THEIRS",
                help="Name a CSV or Parquet column: time, input_tokens, output_tokens, session, blocks.",
            ),
        ]
    ):
        function = option(function)
    return function


def read_options(given: dict[str, Any]) -> Any:
    """ReadOptions from the values of `reading_options`."""
    from warmset.errors import InputError
    from warmset.traces.options import ReadOptions

    columns = {}
    for pair in given["columns"]:
        ours, equals, theirs = pair.partition("=")
        if not equals or not ours or not theirs:
            raise InputError(f"column `{pair}` is not OURS=THEIRS", hint="such as `--column blocks=hashes`")
        columns[ours] = theirs
    return ReadOptions(
        block_tokens=given["block_tokens"],
        time_unit=given["time_unit"],
        skip_bad=given["skip_bad"],
        sort=given["sort"],
        rechain=given["rechain"],
        max_bytes=given["max_size"],
        tokenizer=given["tokenizer"],
        columns=columns,
    )


@command.command("info", epilog=f"{_FORMATS} {_EPILOG}")
@click.argument("source")
@reading_options
@output_options()
def info_command(source: str, form: str, color: str, quiet: bool, **reading: Any) -> None:
    """Show size, reuse by kind, and the hit rate that no tier can exceed.

    \b
    Examples:
      warmset trace info conversation_trace.jsonl.gz --block-tokens 512
      warmset trace info csv:log.csv --column blocks=hashes --column input_tokens=prompt -o json
    """
    from warmset.report.emit import emit
    from warmset.report.trace import document, payload
    from warmset.traces.info import info
    from warmset.traces.reading import read

    with progress("reading", quiet=quiet) as show:
        result = read(source, replace(read_options(reading), progress=show))
    facts = info(result.trace)
    emit(form, lambda: payload(result, facts), lambda: document(result, facts), color=color)


def writing_options(function: F) -> F:
    """How to write a trace."""
    for option in reversed(
        [
            click.option(
                "--to",
                type=click.Choice(["mooncake", "warmset"]),
                default="mooncake",
                show_default=True,
                help="Format to write; DESTINATION ending in .gz or .zst is compressed.",
            ),
            click.option("--force", is_flag=True, help="Write over an existing file."),
        ]
    ):
        function = option(function)
    return function


@command.command("convert", epilog=f"{_FORMATS} {_EPILOG}")
@click.argument("source")
@click.argument("destination")
@writing_options
@reading_options
@output_options()
def convert_command(
    source: str, destination: str, to: str, force: bool, form: str, color: str, quiet: bool, **reading: Any
) -> None:
    """Convert SOURCE to Mooncake JSON lines or to warmset's own format; `-` writes to standard output.

    \b
    Example:
      warmset trace convert agent:sessions/ agents.jsonl.zst
    """
    from warmset.traces.reading import read
    from warmset.traces.writing import write

    with progress("reading", quiet=quiet) as show:
        result = read(source, replace(read_options(reading), progress=show))
    write(result.trace, destination, to, overwrite=force)
    _report(destination, to, result.trace, result, form, color)


@command.command("anonymise", epilog=f"{_FORMATS} {_EPILOG}")
@click.argument("source")
@click.argument("destination")
@writing_options
@reading_options
@output_options()
def anonymise_command(
    source: str, destination: str, to: str, force: bool, form: str, color: str, quiet: bool, **reading: Any
) -> None:
    """Renumber all ids by a salt that is thrown away; the structure stays exactly as it is.

    Ids cannot be traced back, nor compared with those of any other output. Lengths and times since the first
    request stay: they are what the trace is about.

    \b
    Example:
      warmset trace anonymise openai:requests.jsonl shareable.jsonl.gz --tokenizer tokenizer.json
    """
    from warmset.traces.anonymise import write_anonymised
    from warmset.traces.reading import read

    with progress("reading", quiet=quiet) as show:
        result = read(source, replace(read_options(reading), progress=show))
    write_anonymised(result.trace, destination, to, overwrite=force)
    _report(destination, to, result.trace, result, form, color)


def _knob(name: str, kind: Any, text: str) -> Callable[[F], F]:
    return click.option(f"--{name.replace('_', '-')}", name, type=kind, help=text)


_KNOBS = (
    _knob("sessions", TOKENS, "Sessions (rag, noreuse: independent requests)."),
    _knob("turns", float, "Mean requests per session, geometrically distributed."),
    _knob("input_tokens", TOKENS, "Mean new tokens per request."),
    _knob("output_tokens", TOKENS, "Mean generated tokens."),
    _knob("system_tokens", TOKENS, "Tokens of a system prompt."),
    _knob("systems", TOKENS, "Different system prompts; each session draws one."),
    _knob("spread", float, "Sigma of the log-normal token counts; 0 makes all equal."),
    _knob("rate", float, "New sessions per second (Poisson)."),
    _knob("think_seconds", float, "Mean pause between a reply and the next request."),
    _knob("max_context_tokens", TOKENS, "A chat ends here; an agent starts over from a summary."),
    _knob("subagent_ratio", float, "Share of an agent's steps that run a sub-agent."),
    _knob("documents", TOKENS, "Documents in the collection."),
    _knob("documents_per_request", TOKENS, "Documents in one prompt."),
    _knob("document_tokens", TOKENS, "Mean tokens of a document."),
    _knob("zipf", float, "Exponent of popularity of documents and system prompts; 0 is uniform."),
    _knob("block_tokens", TOKENS, "Tokens per block.  [default: 16]"),
)


def knob_options(function: F) -> F:
    """One option per knob of synthetic traffic; those left out keep the default of the kind."""
    for option in reversed(_KNOBS):
        function = option(function)
    return function


@command.command("generate", epilog=_EPILOG)
@click.argument("kind", type=click.Choice(["chat", "agent", "rag", "noreuse"]))
@click.argument("destination", default="-")
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Equal seeds, equal files."
)
@knob_options
@writing_options
@output_options()
def generate_command(
    kind: str,
    destination: str,
    seed: int,
    to: str,
    force: bool,
    form: str,
    color: str,
    quiet: bool,
    **knobs: Any,
) -> None:
    """Generate traffic of KIND: chat, agent, rag or noreuse; without DESTINATION to standard output.

    \b
    Examples:
      warmset trace generate chat chat.jsonl.gz --sessions 5000 --system-tokens 2k --rate 3
      warmset trace generate rag rag.jsonl.zst --documents 10000 --zipf 0.9 --seed 7
    """
    from warmset.traces.generate.make import generate
    from warmset.traces.writing import write

    given = {name: value for name, value in knobs.items() if value is not None}
    trace = generate(kind, seed=seed, **given)
    write(trace, destination, to, overwrite=force)
    _report(destination, to, trace, None, form, color)


def _report(destination: str, to: str, trace: Any, reading: Any, form: str, color: str) -> None:
    """Say what was written, unless the trace itself went to standard output."""
    if destination == "-":
        return
    from warmset.report.emit import emit
    from warmset.report.trace import written_document, written_payload

    emit(
        form,
        lambda: written_payload(destination, to, trace, reading),
        lambda: written_document(destination, to, trace, reading),
        color=color,
    )
