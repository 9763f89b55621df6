"""What the commands about a store share: its address, its key, and how it is opened."""

import shlex
from pathlib import Path
from typing import Any

import click

from warmset.cli.options import DURATION, F
from warmset.errors import InputError

EPILOG = "Exit status: 0 done, 2 bad usage or input, 3 the store does not answer or refuses."


def store_options(function: F) -> F:
    """Add STORE and what a URL does not say."""
    for option in reversed(
        [
            click.argument("url", metavar="STORE"),
            click.option("--endpoint", metavar="URL", help="Endpoint of an S3-compatible store."),
            click.option("--region", help="Region of the bucket."),
            click.option(
                "--ca-file",
                type=click.Path(exists=True, dir_okay=False, path_type=Path),
                help="Certificate authority that the store's certificate is checked against.",
            ),
            click.option(
                "--timeout", type=DURATION, default=5.0, help="Bound of one request.  [default: 5s]"
            ),
        ]
    ):
        function = option(function)
    return function


def key_options(function: F) -> F:
    """Add where the key of an encrypted store comes from."""
    for option in reversed(
        [
            click.option(
                "--key-file",
                type=click.Path(path_type=Path),
                help="File with the key of encrypted blocks, as `encryption_key_file` of the tier.",
            ),
            click.option("--key-env", metavar="NAME", help="Environment variable with that key."),
        ]
    ):
        function = option(function)
    return function


def open_url(url: str, endpoint: str | None, region: str | None, ca_file: Path | None, timeout: float) -> Any:
    """The store at `url`; a directory that is not there is not made."""
    from warmset.tiers.url import StoreOptions, directory, open_store

    path = directory(url)
    if path is not None and not path.is_dir():
        hint = (
            "name a directory"
            if path.exists()
            else f"see that its disk is mounted; `mkdir -p {shlex.quote(str(path))}` makes a new one"
        )
        raise InputError(f"`{url}` is not a directory", hint=hint)
    return open_store(
        url,
        StoreOptions(
            endpoint=endpoint, region=region, ca_file=ca_file, timeout_seconds=timeout, also_read_only=True
        ),
    )
