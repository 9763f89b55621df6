"""A server's own words about its KV pool: the labels of its cache-config metric, and its start-up lines."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warmset.errors import InputError
from warmset.units import GIB

if TYPE_CHECKING:
    from warmset.meters.snapshot import Snapshot

CACHE_CONFIG = "vllm:cache_config_info"
SGLANG_TOKENS = "sglang:max_total_num_tokens"

# Bounded: a line of a million digits is no figure, and no work either.
_NUMBER = r"(\d[\d,]{0,20})"
_GIB = r"(\d[\d,]{0,12}(?:\.\d{1,9})?) GiB"
_AVAILABLE = re.compile(rf"Available KV cache memory: {_GIB}")
_REFUSED = re.compile(rf"available KV cache memory \({_GIB}\)")
_LONGEST = re.compile(rf"estimated maximum model length is {_NUMBER}")
_SIZE = re.compile(rf"KV cache size: {_NUMBER} tokens")
_CONCURRENCY = re.compile(rf"Maximum concurrency for {_NUMBER} tokens")
_BLOCKS = re.compile(rf"# (?:GPU|CPU|device) blocks: {_NUMBER}")
_SGLANG_TOKENS = re.compile(r"(?:#tokens: |max_total_num_tokens=)(\d{1,18})")
_VERSION = re.compile(r"(?:vLLM API server version |LLM engine \(v)(\d+\.\d+\.\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerWords:
    """What was found; None where the server did not say it. Per engine (one data-parallel replica).

    `server` is whose words these are, `vllm` or `sglang`. `kv_bytes_per_rank` is what each rank has for KV cache;
    `blocks` counts block ids; `tokens` is the size that the server derives from its maximum context; `block_tokens`
    is the smallest block of any of its layers.
    """

    server: str = "vllm"
    kv_bytes_per_rank: int | None = None
    blocks: int | None = None
    tokens: int | None = None
    block_tokens: int | None = None
    kv_dtype: str | None = None
    max_model_len: int | None = None
    longest_context_tokens: int | None = None
    version: str | None = None
    engines: int = 1
    notes: tuple[str, ...] = ()


def read_metrics(text: str) -> ServerWords:
    """Read one page of a server's metrics.

    vLLM sums `num_gpu_blocks` over its data-parallel engines and repeats the sum on each engine's row, while
    `kv_cache_size_tokens` (0.24 and newer) is each engine's own: the sum is divided here.
    Raises InputError for a page without these metrics, or with those of several models.
    """
    # Only this source of the budget needs the meters' room: a plain plan starts faster without it.
    from warmset.meters.snapshot import scrape

    snapshot = scrape(text)
    rows = [dict(row.labels) for row in snapshot.samples.get(CACHE_CONFIG, ())]
    if not rows:
        return _read_sglang(snapshot)
    servers = {(row.get("instance", ""), row.get("model_name", "")) for row in rows}
    if len(servers) > 1:
        raise InputError(
            f"the page holds `{CACHE_CONFIG}` of {len(servers)} servers",
            hint="give one server's own `/metrics`, not a federation of many",
        )
    engines = len({row.get("engine", "0") for row in rows})
    first = rows[0]
    summed = _integer(first, "num_gpu_blocks")
    if summed is not None and summed < engines:
        raise InputError(
            f"`num_gpu_blocks` of `{summed}` is no pool", hint="scrape a server that has started"
        )
    dtype = first.get("cache_dtype")
    return ServerWords(
        blocks=None if summed is None else summed // engines,
        tokens=_integer(first, "kv_cache_size_tokens"),
        block_tokens=_integer(first, "effective_attention_block_size") or _integer(first, "block_size"),
        kv_dtype=None if dtype in (None, "auto", "None") else dtype,
        engines=engines,
        notes=(
            (
                f"num_gpu_blocks is the sum over {engines} data-parallel engines: {summed // engines:,} blocks each",
            )
            if engines > 1 and summed is not None
            else ()
        ),
    )


def read_log(text: str) -> ServerWords:
    """Read start-up lines of vLLM or SGLang; the smallest figure wins where ranks or engines differ.

    `Available KV cache memory` is per rank. Raises InputError where no line states a size.
    """
    available = [
        round(float(m.replace(",", "")) * GIB) for m in _AVAILABLE.findall(text) + _REFUSED.findall(text)
    ]
    tokens = _smallest(_SIZE, text)
    blocks = _smallest(_BLOCKS, text)
    if not available and tokens is None and blocks is None:
        if (pool := _smallest(_SGLANG_TOKENS, text)) is not None:
            return ServerWords(server="sglang", tokens=pool)
        raise InputError(
            "the log states no KV cache size",
            hint="give the start-up lines with `Available KV cache memory: … GiB` or `GPU KV cache size: … tokens`",
        )
    versions = _VERSION.findall(text)
    notes = []
    if len(set(available)) > 1:
        notes.append("ranks report different KV memory in the log: the smallest decides, as in the server")
    return ServerWords(
        kv_bytes_per_rank=min(available) if available else None,
        blocks=blocks,
        tokens=tokens,
        max_model_len=_smallest(_CONCURRENCY, text),
        longest_context_tokens=_smallest(_LONGEST, text),
        version=versions[-1] if versions else None,
        notes=tuple(notes),
    )


def _read_sglang(snapshot: "Snapshot") -> ServerWords:
    rows = snapshot.samples.get(SGLANG_TOKENS, ())
    if not rows:
        raise InputError(
            f"the page has neither `{CACHE_CONFIG}` nor `{SGLANG_TOKENS}`",
            hint="give the /metrics of a vLLM server, or of SGLang started with --enable-metrics",
        )
    return ServerWords(server="sglang", tokens=int(min(row.value for row in rows)))


def _integer(labels: Mapping[str, str], name: str) -> int | None:
    value = labels.get(name, "")
    return int(value) if value.isdecimal() and len(value) < 19 and int(value) > 0 else None


def _smallest(pattern: re.Pattern[str], text: str) -> int | None:
    found = [int(m.replace(",", "")[:18]) for m in pattern.findall(text)]
    return min((f for f in found if f > 0), default=None)
