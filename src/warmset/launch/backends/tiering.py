"""vLLM's own host tier with a disk or an object store below it."""

from typing import Any
from urllib.parse import quote, urlsplit

from warmset.launch.backends.native import (
    CONNECTOR,
    host_memory_bytes,
    host_tier,
    platform_notes,
    rounding_notes,
    shared_memory_bytes,
    shm_notes,
)
from warmset.launch.backends.vllm_server import IMAGE, hash_seed, hybrid_notes, surface_of, vllm_process
from warmset.launch.parts import SECRET, Parts
from warmset.launch.request import LaunchRequest
from warmset.launch.surface import refuse
from warmset.units import format_size

SPEC = "TieringOffloadingSpec"
# A store below the host tier that is not several times as large holds little that the host does not.
_STORE_TO_HOST = 4
ACCESS_KEY, SECRET_KEY = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"


def disk_parts(request: LaunchRequest) -> Parts:
    """Files below the host tier."""
    tier = {"type": _tier_type(request, "fs", "fs_python"), "root_dir": request.disk_path}
    size = None if request.disk_bytes is None else request.disk_bytes * request.dp
    notes = [
        ("" if size is None else "`--disk-size` bounds nothing here: ")
        + "the disk tier never deletes and has no size limit of its own: give it a volume (or a quota) of "
        + ("the size that it may take" if size is None else format_size(size))
        + f", and clean it with `warmset tier gc file://{request.disk_path} --prefix '' --capacity "
        + ("SIZE`" if size is None else f"{size}B`"),
    ]
    return _parts(request, tier, tuple(notes), disk_path=request.disk_path)


def object_parts(request: LaunchRequest) -> Parts:
    """An object store below the host tier, through NIXL."""
    kind = _tier_type(request, "obj")
    bucket, prefix = request.bucket
    endpoint = request.endpoint or "https://s3.amazonaws.com"
    store: dict[str, Any] = {
        "bucket": bucket,
        "endpoint_override": endpoint,
        "scheme": urlsplit(endpoint).scheme,
    }
    keys = request.engine.extra_config_keys(CONNECTOR, SPEC, kind)
    required = keys["store_config.access_key"].required
    if required:
        store |= {"access_key": SECRET % ACCESS_KEY, "secret_key": SECRET % SECRET_KEY}
    tier: dict[str, Any] = {"type": kind, "store_config": store}
    if prefix:
        tier["prefix"] = prefix
    notes = ["the object tier needs the `nixl` package in the server's environment"]
    if request.endpoint is None:
        notes.append("no `--endpoint` was given: AWS S3 is assumed")
    notes.append(
        f"credentials are taken from {ACCESS_KEY} and {SECRET_KEY}; "
        + (
            f"vLLM {request.engine.version} wants them in its configuration, so they are visible in the process list"
            if required
            else "left out, the default chain of the AWS SDK acts (variables, files, roles)"
        )
    )
    return _parts(request, tier, tuple(notes), secrets=(ACCESS_KEY, SECRET_KEY), required_secrets=required)


def warmset_parts(request: LaunchRequest) -> Parts:
    """The tier of `warmset.vllm.tier` below the host tier: a disk, an object store or Redis."""
    surface = surface_of(request)
    if not surface.takes_outside_tiers(CONNECTOR, SPEC):
        refuse(
            request.engine,
            "has no tiers from outside (`module_path` of a lower tier)",
            request.engine.versions_with("extra_key", "module_path"),
        )
    url = request.object_url
    per_replica = request.disk_bytes or _STORE_TO_HOST * request.tier_bytes
    tier: dict[str, Any] = {
        "type": "WarmsetTier",
        "module_path": "warmset.vllm.tier",
        "store": url or f"file://{quote(request.disk_path)}",
        "capacity_bytes": per_replica * request.dp,
    }
    if request.endpoint is not None:
        tier["endpoint"] = request.endpoint
    notes = [_where_warmset_goes(request)]
    if request.disk_bytes is None:
        notes.append(
            f"no `--disk-size` was given: the store is bounded at {_STORE_TO_HOST} × the host tier, "
            f"{format_size(per_replica)}"
        )
    if request.dp > 1:
        notes.append(
            f"all {request.dp} replicas share the store: `capacity_bytes` is {request.dp} × {format_size(per_replica)}"
        )
    if url is None:
        return _parts(request, tier, tuple(notes), disk_path=request.disk_path)
    if url.startswith("s3://"):
        notes.append(
            f"credentials come from {ACCESS_KEY} and {SECRET_KEY}, or else from the chain of the AWS tools"
        )
        return _parts(request, tier, tuple(notes), secrets=(ACCESS_KEY, SECRET_KEY))
    if url.startswith("redis"):
        notes.append("a password comes from WARMSET_REDIS_PASSWORD")
        return _parts(request, tier, tuple(notes), secrets=("WARMSET_REDIS_PASSWORD",))
    notes.append("credentials come from the cloud's own chain (environment, files, workload identity)")
    return _parts(request, tier, tuple(notes))


def _where_warmset_goes(request: LaunchRequest) -> str:
    if request.target == "shell":
        return "the tier needs warmset in the server's environment: `pip install 'warmset[tiers]'`"
    image = IMAGE.format(request.engine.version)
    return (
        f"the tier needs warmset, which the image does not have, and without it the server does not start: build one "
        f"(`FROM {image}`, `RUN pip install 'warmset[tiers]'`) and name it in the file"
    )


def _tier_type(request: LaunchRequest, *names: str) -> str:
    """The version's own name for the kind of tier; a version without any is refused."""
    surface_of(request)
    engine = request.engine
    for name in names:
        if engine.tier(name) is not None:
            return name
    able = {v for name in names for v in engine.versions_with("connector", name)}
    return refuse(engine, f"has no `{names[0]}` tier below host memory", tuple(sorted(able)))


def _parts(request: LaunchRequest, tier: dict[str, Any], notes: tuple[str, ...], **rest: Any) -> Parts:
    surface = surface_of(request)
    size, conversion = host_tier(request, surface)
    config = surface.transfer_config(CONNECTOR, {"spec_name": SPEC, **size, "secondary_tiers": [tier]})
    env, seed_notes = hash_seed(request)
    shm_bytes = shared_memory_bytes(request, SPEC)
    return Parts(
        server=vllm_process(request, surface, transfer_config=config, env=env),
        transfer_config=config,
        host_memory_bytes=host_memory_bytes(request),
        shm_bytes=shm_bytes,
        conversions=(conversion,),
        notes=(
            *platform_notes(request.engine),
            *shm_notes(request, shm_bytes, SPEC),
            *seed_notes,
            *notes,
            *rounding_notes(request),
            *hybrid_notes(request, CONNECTOR),
        ),
        **rest,
    )
