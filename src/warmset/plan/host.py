"""What a host tier takes from the host: pinned or shared memory, allocator rounding, /dev/shm, and what is there."""

from dataclasses import dataclass

from warmset.plan.charge import NATIVE
from warmset.plan.record import Host
from warmset.servers import Engine
from warmset.units import GIB, format_bytes, format_size

# Left to the operating system, the page cache and everything else that runs there.
HOST_RAM_SHARE = 0.9
# A server's own processes, weights staging included, on logs of two to eight ranks: 4-9 GiB of anonymous memory each.
PROCESS_BYTES_PER_RANK = 6 * GIB
_HICACHE_UNIT = 10**9
DEV_SHM = "/dev/shm"  # noqa: S108  # a name in messages: nothing is written there


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a backend's tier lives on the host, and how its allocator rounds.

    `regions` separate allocations, each rounded up to a power of two if `power_of_two`, in steps of `unit_bytes`
    per rank; all of it `pools` times. `shared_memory` means /dev/shm.
    """

    shared_memory: bool
    power_of_two: bool
    regions: int
    unit_bytes: int
    how: str
    pools: int = 1

    def host_bytes(self, tier_bytes: int) -> int:
        """Host memory that a tier of `tier_bytes` really takes."""
        if tier_bytes <= 0:
            return 0
        each = -(-tier_bytes // self.regions)
        each = -(-each // self.unit_bytes) * self.unit_bytes
        if self.power_of_two:
            each = 1 << (each - 1).bit_length()
        return each * self.regions * self.pools

    def tier_within(self, host_bytes: int) -> int:
        """The largest tier that takes at most `host_bytes`."""
        each = host_bytes // (self.regions * self.pools)
        if self.power_of_two:
            each = 1 << (each.bit_length() - 1) if each > 0 else 0
        return each // self.unit_bytes * self.unit_bytes * self.regions


# Rounding below this share of a tier is nobody's concern.
_WORTH_SAYING = 1.01


def placement(server: Engine, backend: str, ranks: int, regions_per_rank: int, pools: int) -> Placement:
    """How `backend` places its tier in this version; `regions_per_rank` and `pools` as in `Charge`."""
    if backend == "hicache":
        return Placement(
            shared_memory=False,
            power_of_two=False,
            regions=ranks,
            unit_bytes=_HICACHE_UNIT,
            how="pinned memory of each rank, in whole units of 10^9 bytes per rank"
            + (" for each of its two pools" if pools > 1 else ""),
            pools=pools,
        )
    if backend not in NATIVE:
        return Placement(
            # The server shares its pool by CUDA IPC; it is in /dev/shm only where `--shm-name` asks for it.
            shared_memory=False,
            power_of_two=False,
            regions=1,
            unit_bytes=1,
            how="pinned memory of the LMCache server"
            if backend == "lmcache"
            else "pinned memory of each rank's process",
        )
    users = server.default("dev_shm_users") or []
    spec = "CPUOffloadingSpec" if backend == "native" else "TieringOffloadingSpec"
    if spec in users:
        return Placement(
            shared_memory=True,
            power_of_two=False,
            regions=1,
            unit_bytes=1,
            how=f"one file in {DEV_SHM} for all ranks",
        )
    regions = ranks * regions_per_rank
    return Placement(
        shared_memory=False,
        power_of_two=True,
        regions=regions,
        unit_bytes=1,
        how=(f"{regions} pinned tensors, each" if regions > 1 else "a pinned tensor,")
        + " rounded up to a power of two by PyTorch (until vLLM 0.27)",
    )


def rounding(placed: Placement, tier_bytes: int) -> str | None:
    """What to say where the host gives notably more than the tier's size."""
    taken = placed.host_bytes(tier_bytes)
    if not tier_bytes or taken <= tier_bytes * _WORTH_SAYING:
        return None
    return (
        f"the host gives {format_size(taken)} for a tier of {format_size(tier_bytes)}: {placed.how}; a tier of "
        f"{format_size(placed.tier_within(taken))} takes no more"
    )


def host(
    ram_bytes: int | None,
    container_limit_bytes: int | None,
    dev_shm_bytes: int | None,
    ranks: int,
    replicas: int,
) -> Host:
    """What is there for the tier of one of `replicas` replicas of `ranks` ranks on this host."""
    own, limits = PROCESS_BYTES_PER_RANK * ranks * replicas, []
    if ram_bytes is not None:
        left = min(int(ram_bytes * HOST_RAM_SHARE), max(0, ram_bytes - own))
        limits.append((left // replicas, "host memory"))
    if container_limit_bytes is not None:
        limits.append((max(0, container_limit_bytes - own) // replicas, "the container's memory limit"))
    smallest = min(limits, default=None)
    return Host(
        ram_bytes=ram_bytes,
        container_limit_bytes=container_limit_bytes,
        dev_shm_bytes=dev_shm_bytes,
        available_bytes=_whole_gib(smallest[0]) if smallest else None,
        limited_by=smallest[1] if smallest else None,
    )


def _whole_gib(size: int) -> int:
    """Whole GiB where there is more than one: what a limit leaves need not be odd as well."""
    return size // GIB * GIB if size >= GIB else size


def dev_shm_advice(server: Engine, needed: int, given: int | None) -> str | None:
    """What /dev/shm must be, where the tier lives there and nothing shows that it is large enough."""
    if needed == 0 or (given is not None and given >= needed):
        return None
    checked = (
        "the server stops at its start"
        if server.default("dev_shm_checked")
        else "the server dies by a bus error"
    )
    if given is None:
        return f"{DEV_SHM} must hold {format_size(needed)} (containers get 64 MiB by default): otherwise {checked}"
    return (
        f"{DEV_SHM} of {format_bytes(given)} is {format_bytes(needed - given)} too small for {format_size(needed)}: "
        f"raise it, otherwise {checked}"
    )
