"""The `Plan` record and its parts. Bytes are per replica and count all of its ranks unless a name says otherwise."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Verdict = Literal["leave_off", "offload", "add_lower_tier", "recompute", "does_not_fit"]
Inclusion = Literal["inclusive", "exclusive"]
BudgetSource = Literal["metrics", "log", "kv_cache_tokens", "hbm_kv", "estimate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What should stay warm on one replica.

    `warm_set_bytes` is the content itself: sessions × context, copies on ranks included, prefixes that sessions
    share counted once. `device_bytes` is what the device pool charges for it: whole blocks, every copy of a state.
    """

    sessions: int
    context_tokens: int
    shared_prefix_tokens: int
    bytes_per_session: int
    warm_set_bytes: int
    warm_set_tokens: int
    device_bytes_per_session: int
    device_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """The KV pool of one replica's devices.

    `low_bytes`, `kv_budget_bytes` and `high_bytes` differ only where the budget is an estimate. Of the budget,
    `usable_bytes` are the whole blocks that sessions can hold and `reserved_bytes` those that the server keeps to
    itself; what is left fills no block on every rank. `bytes_per_block` is what one more block takes of the budget.
    """

    source: BudgetSource
    kv_budget_bytes: int
    usable_bytes: int
    reserved_bytes: int
    bytes_per_block: int
    low_bytes: int
    high_bytes: int
    tokens: int
    sessions: int
    max_context_tokens: int
    accelerator: str | None = None
    terms: tuple[tuple[str, int], ...] = ()

    @property
    def estimated(self) -> bool:
        """Whether the budget is an estimate with a band."""
        return self.source == "estimate"

    @property
    def block_bytes(self) -> int:
        """Bytes of all whole blocks, the server's own among them."""
        return self.usable_bytes + self.reserved_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """The host tier: both sizing rules, the one that applies, and what the backend and the host make of it.

    `inclusive_bytes` and `exclusive_bytes` are in the tier's own currency (what this backend stores for the warm
    set, see `conversions`); `recommended_bytes` is one of them, less where host memory ends, or 0.
    """

    backend: str
    inclusion: Inclusion
    why: str
    headroom_ratio: float
    warm_set_bytes: int
    inclusive_bytes: int
    exclusive_bytes: int
    recommended_bytes: int
    per_rank_bytes: int
    allocated_bytes: int
    chunk_bytes: int
    chunk_tokens: int
    host_memory_bytes: int
    dev_shm_bytes: int
    sessions: int
    bytes_per_warm_session: int
    conversions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerTier:
    """A tier below host memory, which holds the whole warm set; host memory is then its staging area."""

    storage: str
    kind: Literal["disk", "object"]
    recommended_bytes: int
    staging_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEven:
    """Loading a token from a tier against computing it again. `ratio` above 1 means that loading is faster.

    Rates that are not known are None, with the reason in `note`.
    """

    tier: Literal["host", "disk", "object"]
    label: str
    load_bytes_per_second: float | None
    load_tokens_per_second: float | None
    prefill_tokens_per_second: float | None
    ratio: float | None
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What the host offers; None where it was not said."""

    ram_bytes: int | None
    container_limit_bytes: int | None
    dev_shm_bytes: int | None
    available_bytes: int | None
    limited_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Totals over all replicas: `--replicas` × data-parallel replicas in each."""

    replicas: int
    sessions: int
    warm_set_bytes: int
    tier_bytes: int
    host_memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cost of the host memory that the tier takes, in the currency of `--ram-price`."""

    price_per_gib: float
    total: float
    per_warm_session: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRule:
    """What sizing by sessions would have said for the same traffic.

    `basis` is `options` where sessions and context were given, `trace` where they are read off the trace (the most
    that sessions under way at one time hold). `hit_ratio` is what a tier of that size would serve.
    """

    basis: Literal["options", "trace"]
    sessions: int
    context_tokens: int
    tier_bytes: int
    hit_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What a trace says about the size. Hit ratios are over `total_tokens`, the tokens covered by listed blocks.

    `device_hit_ratio` is the device alone, `tier_hit_ratio` with a tier of `tier_bytes` (the smallest within
    `within_points` percentage points of `reachable_hit_ratio`; 0 where the device is), `recommended_hit_ratio` with
    what the plan recommends. `reachable_hit_ratio` is with a tier without end, whose chunks lose tails;
    `ceiling_hit_ratio` is that of a cache of blocks without end; `ceiling_bytes` is where a larger tier adds nothing,
    and `knee_bytes` where the curve bends (0 where the device pool is past it).
    Blocks are those of the trace, of `block_tokens`; `bytes_per_block` is what the tier stores for one.
    """

    source: str
    requests: int
    block_tokens: int
    bytes_per_block: float
    total_tokens: int
    within_points: float
    device_blocks: int
    device_hit_ratio: float
    tier_blocks: int
    tier_bytes: int
    tier_hit_ratio: float
    recommended_hit_ratio: float
    reachable_hit_ratio: float
    ceiling_hit_ratio: float
    ceiling_bytes: int
    knee_bytes: int
    knee_hit_ratio: float
    session_rule: SessionRule
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do, why, and what would change it."""

    verdict: Verdict
    reasons: tuple[str, ...]
    fixes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One decision with everything it rests on.

    `block_size`, `max_model_len` and `asked_kv_dtype` are what a command must say: the first two only where the
    user asked for them. `ranks_cache_the_same` where all ranks hold the same latents; `regions_per_rank` and `pools`
    tell how the backend places its tier on the host; `one_kind_of_cache` where all layers cache alike. `kv_dtype` is
    what `asked_kv_dtype` comes down to for this model.
    """

    model: str | None
    engine: str
    backend: str
    kv_dtype: str
    bytes_per_token: float
    block_tokens: int
    tp: int
    pp: int
    dp: int
    dcp: int
    max_model_len: int | None
    block_size: int | None
    asked_kv_dtype: str
    bytes_per_token_per_rank: Fraction
    ranks_cache_the_same: bool
    regions_per_rank: int
    pools: int
    one_kind_of_cache: bool
    decision: Decision
    demand: Demand
    device: Device
    tier: Tier
    lower_tier: LowerTier | None
    break_even: tuple[BreakEven, ...]
    host: Host
    fleet: Fleet
    cost: Cost | None
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]
    traffic: Traffic | None = None

    @property
    def ranks(self) -> int:
        """Ranks (devices) of one replica."""
        return self.tp * self.pp
