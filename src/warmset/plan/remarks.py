"""What a plan assumed and what its reader must know, in words."""

from warmset.plan.decide import Outcome
from warmset.plan.device import Budget
from warmset.plan.host import (
    DEV_SHM,
    HOST_RAM_SHARE,
    PROCESS_BYTES_PER_RANK,
    Placement,
    dev_shm_advice,
    rounding,
)
from warmset.plan.record import BreakEven, Tier
from warmset.plan.request import PlanRequest
from warmset.servers import Engine
from warmset.units import format_size, format_tokens

_DEVICES_PER_NODE = 8


def assumptions(
    request: PlanRequest,
    server: Engine,
    speeds: tuple[BreakEven, ...],
    *,
    gpu_known: bool,
    version_known: bool,
) -> list[str]:
    """What was taken for granted, each with the option that replaces it."""
    said = []
    if not version_known:
        said.append(f"server: {server}, the newest known (`--engine` names another)")
    if request.host_ram_bytes is not None:
        left = (
            f"{1 - HOST_RAM_SHARE:.0%} of host memory is left to the operating system and the server itself"
        )
        own = PROCESS_BYTES_PER_RANK * request.ranks * request.dp
        if own > (1 - HOST_RAM_SHARE) * request.host_ram_bytes:
            each = format_size(PROCESS_BYTES_PER_RANK)
            left = f"{each} of host memory for each rank are left to the server's own processes"
        said.append(left)
    if speeds and speeds[0].ratio is not None:
        said.append(f"break-even: {speeds[0].note}")
    elif speeds:
        said.append(f"no break-even for host memory: {speeds[0].note}")
    if request.dp > 1:
        said.append(f"all {request.dp} data-parallel replicas run on this host, each with a tier of its own")
    if not gpu_known and speeds[0].load_bytes_per_second is None:
        said.append(
            "loading from host memory is taken to be faster than computing again, as on every device known"
        )
    return said


def notes(
    request: PlanRequest, server: Engine, found: Budget, outcome: Outcome, tier: Tier, placed: Placement
) -> list[str]:
    """What a reader must know about the sizes, and what the host must be given."""
    said = []
    device = found.device
    if request.geometry.name is None:
        said.append("no model was named: the command says `MODEL`")
    if device.estimated and outcome.decision.verdict in ("offload", "add_lower_tier"):
        said.append(
            f"the device budget is an estimate between {format_size(device.low_bytes)} and "
            f"{format_size(device.high_bytes)}; the inclusive size does not depend on it"
            if tier.inclusion == "inclusive"
            else f"the device budget is an estimate between {format_size(device.low_bytes)} and "
            f"{format_size(device.high_bytes)}, and the size depends on it"
        )
    rounded = rounding(placed, tier.recommended_bytes)
    if rounded is not None:
        said.append(rounded)
    advice = dev_shm_advice(server, tier.dev_shm_bytes * request.dp, request.dev_shm_bytes)
    if advice is not None:
        said.append(advice)
    elif tier.dev_shm_bytes:
        said.append(f"{DEV_SHM} of {format_size(request.dev_shm_bytes or 0)} holds the tier")
    if outcome.lower is not None:
        place = (
            "`/kv`: put the directory of your disk"
            if outcome.lower.kind == "disk"
            else "`bucket`: put your bucket"
        )
        said.append(f"where the command says {place} there")
    if request.ranks > _DEVICES_PER_NODE:
        said.append(
            f"{request.ranks} devices span nodes: each node needs memory for its own ranks' share of the tier"
        )
    if tier.allocated_bytes == 0 and tier.recommended_bytes:
        said.append("the tier is smaller than one chunk: it would store nothing")
    if request.context_tokens < tier.chunk_tokens:
        said.append(
            f"contexts of {format_tokens(request.context_tokens)} fill no chunk of {tier.chunk_tokens}: nothing of "
            "them can be stored or reused"
        )
    return said
