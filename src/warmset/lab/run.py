"""Runs the circle on a real vLLM: without a tier, with it, and predicted against measured."""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from warmset.errors import InputError, UnknownName
from warmset.lab import preflight
from warmset.lab.backends import BACKENDS, HostTier, transfer_config
from warmset.lab.builtin import Shape, builtin
from warmset.lab.lmcache import check_lmcache, inert, lmcache_server
from warmset.lab.model import ModelShape, read_shape, write_model
from warmset.lab.predict import Prediction, Tiers, predict
from warmset.lab.reach import get
from warmset.lab.record import Hits, Lab, LabResult
from warmset.lab.replay import Answer, replay
from warmset.lab.rundir import cache_dir, make_run_dir, write_requests, write_trace
from warmset.lab.server import Running, VllmServer, running
from warmset.lab.traced import traced
from warmset.lab.workload import Workload, each
from warmset.meters import judge, meters, scrape, window
from warmset.meters.baseline import Baseline
from warmset.meters.measurement import Measurement
from warmset.meters.meters import Meters
from warmset.meters.snapshot import Snapshot
from warmset.meters.window import Window
from warmset.units import format_counted

DEFAULT_REQUESTS = 160
_SETTLE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Listener:
    """Whom the lab tells what it is doing: a phase by its name, and requests done of all."""

    phase: Callable[[str], None] = lambda text: None
    progress: Callable[[int, int], None] = lambda done, total: None


def run_lab(
    lab: Lab, baseline_of: Callable[[Meters], Baseline], listener: Listener | None = None
) -> LabResult:
    """Start real servers here, replay the workload on each, and compare.

    `baseline_of` makes the baseline of the run without a tier. Raises InputError, before anything is
    started, for what cannot work; every process is gone on return and on any error.
    """
    listen = listener or Listener()
    _check(lab)
    shape = read_shape(lab.model) if lab.model is not None else ModelShape(attention=lab.attention)
    bytes_per_block = shape.kv_bytes_per_block(lab.block_tokens)
    tier = HostTier(lab.host_blocks, bytes_per_block, lab.blocks_per_chunk, lab.block_tokens)
    preflight.check_shared_memory(tier.bytes)
    # Half of what the model takes, so that prompts have room to grow by their answers.
    workload = _workload(lab, shape.max_context_tokens // 2)
    longest = max(request.input_tokens + request.output_tokens for request in each(workload))
    preflight.check_pool(workload, lab.device_blocks, lab.block_tokens)
    preflight.check_memory((lab.device_blocks + 1) * bytes_per_block)
    if lab.model is None:
        shape = replace(shape, max_context_tokens=max(shape.max_context_tokens, longest + 1))
    preflight.check_context(longest + 1, shape.max_context_tokens)
    python = lab.python or sys.executable
    preflight.check_python(python)
    check_lmcache(lab.backend, python)
    directory = make_run_dir(lab.run_dir, workload.name)
    model = lab.model or _own_model(shape)
    server = VllmServer(
        python,
        model,
        lab.device_blocks,
        lab.block_tokens,
        (lab.device_blocks + 1) * bytes_per_block,
        longest + 1,
        lab.concurrency,
        port=lab.port,
        # More threads do not make the small model faster, and labs side by side slower.
        environment={} if lab.model else {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")},
    )

    off, off_answers = _replay_on(server, workload, lab, directory, "off", listen)
    off_meters = meters(off)
    disk = directory / "disk"
    try:
        chunk_tokens = lab.block_tokens * lab.blocks_per_chunk
        with lmcache_server(lab.backend, python, tier.bytes, chunk_tokens, directory) as port:
            transfer = transfer_config(lab.backend, tier, disk=disk, lmcache_port=port)
            on, on_answers = _replay_on(
                replace(server, transfer=transfer), workload, lab, directory, "on", listen
            )
    finally:
        shutil.rmtree(disk, ignore_errors=True)
    baseline = baseline_of(off_meters)
    on_meters = meters(
        on,
        tier_bytes=tier.bytes,
        bytes_per_token=bytes_per_block / lab.block_tokens,
        chunk_tokens=lab.block_tokens * lab.blocks_per_chunk,
    )
    listen.phase("predicting")
    without, with_tier, predicted, notes = _predictions(lab, shape, workload)
    measured = measured_hits(on_meters)
    if lab.backend.startswith("lmcache"):
        # vLLM does not say in which tier another connector found its blocks; here there is only memory.
        measured = replace(measured, host_hit_tokens=measured.external_hit_tokens, disk_hit_tokens=None)
    write_trace(directory / "trace.jsonl.gz", workload, on_answers, lab.block_tokens)
    write_requests(directory / "requests.csv", on_answers, with_tier.per_request if with_tier else None)
    verdict = judge(on_meters, baseline)
    if not measured.external_hit_tokens and shape.attention == "full":
        asked = predict(workload, _tiers(lab)).host_hit_tokens
        verdict = inert(lab.backend, asked, directory) or verdict
    return LabResult(
        workload.name,
        len(workload),
        lab.seed,
        lab.concurrency,
        lab.backend,
        lab.block_tokens,
        lab.device_blocks,
        lab.host_blocks,
        lab.blocks_per_chunk,
        sum(len(answer.prompt) for answer in on_answers),
        Measurement(off_meters, judge(off_meters)),
        Measurement(on_meters, verdict, baseline),
        predicted,
        measured,
        Hits(without.device_hit_tokens, None),
        measured_hits(off_meters),
        [answer.output for answer in off_answers] == [answer.output for answer in on_answers],
        directory,
        (*workload.notes, *notes),
    )


def measured_hits(m: Meters) -> Hits:
    """Hits by the server's own counters."""
    external = _whole(m.external_hit_tokens)
    tiers = m.hit_ratio.by_tier
    host = _whole(tiers["host"]) if "host" in tiers else external
    return Hits(_whole(m.device_hit_tokens), host, _whole(tiers.get("disk")), external)


def check_counts(lab: Lab) -> None:
    """Raise InputError for a count that leaves nothing to replay or to measure."""
    for name, value in (
        ("--device-blocks", lab.device_blocks),
        ("--tier-blocks", lab.tier_blocks),
        ("--concurrency", lab.concurrency),
        ("--blocks-per-chunk", lab.blocks_per_chunk),
        ("--requests", lab.requests),
        ("--output-tokens", lab.output_tokens),
    ):
        if value is not None and value < 1:
            raise InputError(f"`{name} {value}` leaves nothing to measure", hint=f"give `{name} 1` or more")


def _check(lab: Lab) -> None:
    if lab.backend not in BACKENDS:
        raise UnknownName("backend", lab.backend, BACKENDS, hint=f"use {', '.join(BACKENDS)}")
    check_counts(lab)
    if lab.host_blocks < lab.blocks_per_chunk:
        raise InputError(
            f"a tier of `{lab.host_blocks}` blocks holds no chunk of {format_counted(lab.blocks_per_chunk, 'block')}",
            hint=f"give `--tier-blocks {lab.blocks_per_chunk}` or more",
        )
    if lab.block_tokens < 32 or lab.block_tokens % 32:
        raise InputError(
            f"`--block-tokens {lab.block_tokens}` is not a multiple of 32",
            hint="vLLM's attention on the CPU takes blocks of 32, 64, 96 … tokens",
        )
    if lab.model is not None:
        preflight.check_model(lab.model)
        read_shape(lab.model)


def _workload(lab: Lab, longest_tokens: int) -> Workload:
    if lab.trace is not None:
        return traced(lab)
    shape = Shape(
        (lab.device_blocks - 1) * lab.block_tokens,
        lab.host_blocks * lab.block_tokens,
        lab.requests or DEFAULT_REQUESTS,
        lab.output_tokens,
        lab.seed,
        longest_tokens,
    )
    return builtin(lab.workload, shape)


def _own_model(shape: ModelShape) -> Path:
    """A model of the lab's own, written once per shape and moved into place whole."""
    name = sha256(repr(shape).encode()).hexdigest()[:12]
    home = cache_dir() / "models"
    target = home / f"{shape.attention}-{name}"
    if not target.is_dir():
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home) as scratch:
            written = write_model(Path(scratch) / "model", shape)
            try:
                os.rename(written, target)
            except OSError:
                if not target.is_dir():
                    raise
    return target


def _replay_on(
    server: VllmServer, workload: Workload, lab: Lab, directory: Path, name: str, listen: Listener
) -> tuple[Window, list[Answer]]:
    listen.phase(f"starting vLLM, offload {name}")
    with running(server, directory / f"{name}.log") as up:
        return replay_between_scrapes(up, workload, lab.concurrency, directory, name, listen)


def replay_between_scrapes(
    server: Running,
    workload: Workload,
    concurrency: int,
    directory: Path,
    name: str,
    listen: Listener,
    headers: dict[str, str] | None = None,
) -> tuple[Window, list[Answer]]:
    """Replay a workload and return what the server counted meanwhile; both scrapes are kept."""
    start = _scrape(server.url, directory / f"{name}.start.prom", headers)
    listen.phase(f"replaying {format_counted(len(workload), 'request')}, offload {name}")
    answers = replay(
        workload,
        server.url,
        server.model,
        concurrency=concurrency,
        headers=headers,
        progress=listen.progress,
    )
    # What the last step counted arrives with the step after it.
    time.sleep(_SETTLE_SECONDS)
    return window(start, _scrape(server.url, directory / f"{name}.end.prom", headers)), answers


def _scrape(url: str, path: Path, headers: dict[str, str] | None) -> Snapshot:
    text, now = get(f"{url}/metrics", headers), time.time()
    path.write_text(text, encoding="utf-8")
    return scrape(text, source=str(path), time_seconds=now)


def _predictions(
    lab: Lab, shape: ModelShape, workload: Workload
) -> tuple[Prediction, Prediction | None, Hits, list[str]]:
    """Hits without a tier, with the tier where it can be predicted, and what cannot be said."""
    with_host = _tiers(lab)
    without = predict(workload, replace(with_host, host_chunks=None))
    if shape.attention != "full":
        note = "hits are predicted for models of one group of full attention; here only measured"
        return without, None, Hits(None, None), [note]
    if lab.backend.startswith("lmcache"):
        note = "LMCache keeps and evicts by rules of its own: its hits are measured, not predicted"
        return without, None, Hits(without.device_hit_tokens, None), [note]
    one = predict(workload, with_host)
    disk = one.disk_hit_tokens if with_host.disk else None
    hits = Hits(one.device_hit_tokens, one.host_hit_tokens, disk, one.host_hit_tokens + one.disk_hit_tokens)
    notes = [] if lab.concurrency == 1 else ["requests in flight together are predicted by their order"]
    return without, one, hits, notes


def _tiers(lab: Lab) -> Tiers:
    return Tiers(
        lab.block_tokens,
        lab.device_blocks,
        host_chunks=lab.host_blocks // lab.blocks_per_chunk,
        blocks_per_chunk=lab.blocks_per_chunk,
        concurrency=lab.concurrency,
        disk=lab.backend in ("native+disk", "native+warmset"),
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
