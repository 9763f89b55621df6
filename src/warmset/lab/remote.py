"""Replays a workload against a server that is already running, and predicts what it can."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from warmset.addresses import is_http, without_credentials
from warmset.errors import InputError
from warmset.lab.builtin import Shape, builtin
from warmset.lab.predict import Tiers, predict
from warmset.lab.reach import get, get_json
from warmset.lab.record import Hits, Lab, LabResult
from warmset.lab.run import (
    DEFAULT_REQUESTS,
    Listener,
    check_counts,
    measured_hits,
    replay_between_scrapes,
)
from warmset.lab.rundir import make_run_dir, write_requests, write_trace
from warmset.lab.server import Running
from warmset.lab.traced import traced
from warmset.lab.workload import Workload, each
from warmset.meters import judge, meters, scrape
from warmset.meters.measurement import Measurement


@dataclass(frozen=True, slots=True)
class Pool:
    """What a server says about itself; None where it does not. `fresh` when it has served nothing yet."""

    model: str
    max_context_tokens: int | None
    block_tokens: int | None
    device_blocks: int | None
    host_chunks: int | None
    blocks_per_chunk: int
    fresh: bool


def run_remote(
    lab: Lab, url: str, headers: Mapping[str, str] | None = None, listener: Listener | None = None
) -> LabResult:
    """Replay against the server at `url`; its tier, if any, is as it is, so there is no run without one."""
    listen = listener or Listener()
    root = url.rstrip("/").removesuffix("/v1").removesuffix("/metrics")
    _check_url(root)
    check_counts(lab)
    sent = dict(headers or {})
    pool = _as_told(_pool(root, sent), lab)
    workload = _workload(lab, pool)
    _check_lengths(workload, pool)
    directory = make_run_dir(lab.run_dir, workload.name)
    server = Running(root, pool.model, directory / "none.log", lambda: True)
    window, answers = replay_between_scrapes(
        server, workload, lab.concurrency, directory, "on", listen, sent or None
    )
    read = meters(window)
    predicted, per_request, notes = _predicted(lab, workload, pool)
    if pool.block_tokens is not None:
        write_trace(directory / "trace.jsonl.gz", workload, answers, pool.block_tokens)
    write_requests(directory / "requests.csv", answers, per_request)
    return LabResult(
        workload.name,
        len(workload),
        lab.seed,
        lab.concurrency,
        "as running",
        pool.block_tokens,
        pool.device_blocks,
        None if pool.host_chunks is None else pool.host_chunks * pool.blocks_per_chunk,
        pool.blocks_per_chunk,
        sum(len(answer.prompt) for answer in answers),
        None,
        Measurement(read, judge(read)),
        predicted,
        measured_hits(read),
        None,
        None,
        None,
        directory,
        (*workload.notes, *notes),
    )


def _pool(root: str, headers: dict[str, str]) -> Pool:
    listed = get_json(f"{root}/v1/models", headers)
    try:
        model: dict[str, Any] = listed["data"][0]
        name = model["id"]
    except (KeyError, IndexError, TypeError):
        raise InputError(
            f"`{without_credentials(root)}/v1/models` names no model",
            hint="give the URL of an OpenAI-compatible server",
        ) from None
    page = scrape(get(f"{root}/metrics", headers))
    config = _labels(page.samples, "vllm:cache_config_info")
    offload = _labels(page.samples, "vllm:kv_offload_config_info")
    return Pool(
        str(name),
        _count(model.get("max_model_len")),
        _count(config.get("block_size")),
        _count(config.get("num_gpu_blocks")),
        _count(offload.get("cpu_num_chunks")),
        _count(offload.get("cpu_blocks_per_chunk")) or 1,
        not any(sample.value for sample in page.samples.get("vllm:prompt_tokens_total") or ()),
    )


def _check_url(root: str) -> None:
    if not is_http(root):
        raise InputError(
            f"`{without_credentials(root)}` is not a URL", hint="write it like `http://localhost:8000`"
        )


def _as_told(pool: Pool, lab: Lab) -> Pool:
    """With the host tier that the user says it has, where the server does not say."""
    if pool.host_chunks is not None or lab.tier_blocks is None:
        return pool
    return replace(
        pool, host_chunks=lab.tier_blocks // lab.blocks_per_chunk, blocks_per_chunk=lab.blocks_per_chunk
    )


def _workload(lab: Lab, pool: Pool) -> Workload:
    if lab.trace is not None:
        return traced(lab)
    block = pool.block_tokens or lab.block_tokens
    chunks = pool.host_chunks
    tier_blocks = lab.host_blocks if chunks is None else chunks * pool.blocks_per_chunk
    longest = None if pool.max_context_tokens is None else pool.max_context_tokens // 2
    shape = Shape(
        (pool.device_blocks or lab.device_blocks) * block,
        tier_blocks * block,
        lab.requests or DEFAULT_REQUESTS,
        lab.output_tokens,
        lab.seed,
        longest,
    )
    return builtin(lab.workload, shape)


def _check_lengths(workload: Workload, pool: Pool) -> None:
    limit = pool.max_context_tokens or math.inf
    for number, request in enumerate(each(workload)):
        if request.input_tokens + request.output_tokens > limit:
            raise InputError(
                f"request {number} has {request.input_tokens + request.output_tokens:,} tokens, but the server "
                f"takes {limit:,}",
                hint="cut the trace, start the server with a longer `--max-model-len`, or give `--requests`",
            )


def _predicted(
    lab: Lab, workload: Workload, pool: Pool
) -> tuple[Hits, tuple[tuple[int, int], ...] | None, list[str]]:
    if pool.block_tokens is None or pool.device_blocks is None:
        return Hits(None, None), None, ["the server does not say how large its pool is: nothing is predicted"]
    notes = ["predicted for caches that were empty at the start and for one group of full attention"]
    if not pool.fresh:
        notes.append("the server had served other prompts before: its caches were not empty at the start")
    tiers = Tiers(
        pool.block_tokens,
        pool.device_blocks,
        host_chunks=pool.host_chunks,
        blocks_per_chunk=pool.blocks_per_chunk,
        concurrency=lab.concurrency,
    )
    if pool.host_chunks is None:
        notes.append(
            "the server does not say how large its host tier is: only the device is predicted, unless "
            "`--tier-blocks` says it"
        )
    found = predict(workload, tiers)
    host = None if pool.host_chunks is None else found.host_hit_tokens
    return Hits(found.device_hit_tokens, host, None, host), found.per_request, notes


def _labels(samples: Mapping[str, Any], name: str) -> dict[str, str]:
    rows = samples.get(name) or ()
    return dict(rows[0].labels) if rows else {}


def _count(value: object) -> int | None:
    try:
        return int(float(str(value)))
    except (ValueError, OverflowError):
        return None
