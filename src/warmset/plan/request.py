"""What a plan is asked: everything that the command line or a caller may say, checked as far as it can be alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from warmset.errors import InputError
from warmset.geometry import Geometry
from warmset.servers import Engine, engine

if TYPE_CHECKING:
    from warmset.traces.record import Trace

BACKENDS = (
    "native",
    "native+disk",
    "native+object",
    "native+warmset",
    "lmcache",
    "lmcache-inprocess",
    "hicache",
)
MAX_SESSIONS = 10**9
MAX_REPLICAS = 10**6
# Prefill or link rates above these are typing errors: no machine of today is within a factor of ten.
MAX_PREFILL_TOKENS_PER_SECOND = 1e9
MAX_LOAD_GB_PER_SECOND = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """One question. Sizes are bytes per replica, all ranks; rates are per replica.

    Attributes:
        geometry: the model.
        sessions: sessions that should stay warm on one replica.
        context_tokens: tokens of one such session at its longest.
        shared_prefix_tokens: leading tokens that all sessions have in common.
        hbm_kv_bytes, kv_cache_tokens, metrics, log: the device's KV budget in other people's words: bytes, tokens
            as the server logs them, a page of metrics (text), start-up lines (text). At most one may be given.
        gpu: name of the accelerator, for an estimate of the budget, for host link and compute rate.
        host_ram_bytes, container_limit_bytes, dev_shm_bytes: what the host offers, all replicas on it together.
        prefill_tokens_per_second, load_bytes_per_second: measured rates instead of peak × efficiency.
        storage: names of lower tiers to consider, such as `nvme-gen4`.
        trace: traffic of one replica, which then decides instead of sessions × context; the tier is the smallest
            within `within_points` percentage points of what any tier could reach. `sessions_given` says that sessions
            and context are the user's own words, not read off the trace.
    """

    geometry: Geometry
    sessions: int
    context_tokens: int
    shared_prefix_tokens: int = 0
    kv_dtype: str = "auto"
    tp: int = 1
    pp: int = 1
    dp: int = 1
    dcp: int = 1
    block_size: int | None = None
    platform: str = "cuda"
    speculative_tokens: int = 0
    prefix_caching: bool = True
    hybrid_manager: bool = True
    max_model_len: int | None = None
    engine: Engine | None = None
    lmcache: Engine | None = None
    backend: str | None = None
    gpu: str | None = None
    gpu_memory_utilization: float | None = None
    hbm_kv_bytes: int | None = None
    kv_cache_tokens: int | None = None
    metrics: str | None = None
    log: str | None = None
    host_ram_bytes: int | None = None
    container_limit_bytes: int | None = None
    dev_shm_bytes: int | None = None
    headroom_ratio: float = 0.15
    storage: tuple[str, ...] = ()
    prefill_tokens_per_second: float | None = None
    load_bytes_per_second: float | None = None
    ram_price_per_gib: float | None = None
    replicas: int = 1
    trace: "Trace | None" = None
    within_points: float = 1.0
    sessions_given: bool = True

    def __post_init__(self) -> None:
        _whole("sessions", self.sessions, 1, MAX_SESSIONS)
        _whole("context", self.context_tokens, 1, 2**40)
        _whole("replicas", self.replicas, 1, MAX_REPLICAS)
        _whole("dp", self.dp, 1, 4096)
        if not 0 <= self.shared_prefix_tokens <= self.context_tokens:
            raise InputError(
                f"a shared prefix of `{self.shared_prefix_tokens}` tokens does not fit a context of "
                f"{self.context_tokens}",
                hint="the prefix is part of each session's context",
            )
        if not 0 <= self.headroom_ratio <= 10:
            raise InputError(
                f"headroom `{self.headroom_ratio:g}` is not between 0 and 10", hint="0.15 means 15 %"
            )
        if self.gpu_memory_utilization is not None and not 0 < self.gpu_memory_utilization <= 1:
            raise InputError(
                f"GPU memory utilization `{self.gpu_memory_utilization:g}` is not above 0 and at most 1",
                hint="write it as vLLM's flag takes it, such as `0.92`",
            )
        if self.max_model_len is not None and self.max_model_len < self.context_tokens:
            raise InputError(
                f"context `{self.context_tokens}` is past `--max-model-len {self.max_model_len}`",
                hint=f"raise `--max-model-len` to {self.context_tokens} or ask for a shorter context",
            )
        _positive("--hbm-kv", self.hbm_kv_bytes)
        _positive("--kv-cache-tokens", self.kv_cache_tokens)
        _positive("--host-ram", self.host_ram_bytes)
        _positive("--container-limit", self.container_limit_bytes)
        _positive("--shm", self.dev_shm_bytes)
        _positive("--prefill-tps", self.prefill_tokens_per_second, MAX_PREFILL_TOKENS_PER_SECOND)
        _positive("--load-gbps", self.load_bytes_per_second, MAX_LOAD_GB_PER_SECOND * 1e9)
        if self.ram_price_per_gib is not None and not 0 <= self.ram_price_per_gib <= 1e9:
            raise InputError(
                f"RAM price `{self.ram_price_per_gib:g}` is not a price", hint="give the price of one GiB"
            )
        if not 0 <= self.within_points <= 100:
            raise InputError(
                f"`{self.within_points:g}` points are not between 0 and 100",
                hint="give percentage points below the ceiling, such as `--within 1`",
            )
        self._check_budget_sources()

    def _check_budget_sources(self) -> None:
        given: Mapping[str, Any] = {
            "--metrics": self.metrics,
            "--log": self.log,
            "--kv-cache-tokens": self.kv_cache_tokens,
            "--hbm-kv": self.hbm_kv_bytes,
        }
        named = [f"`{option}`" for option, value in given.items() if value is not None]
        if len(named) > 1:
            raise InputError(
                f"{' and '.join(named)} each state the device's KV budget",
                hint="keep one; a server's own words (`--metrics`, `--log`) are the best",
            )
        if named and self.gpu_memory_utilization is not None:
            raise InputError(
                f"`--gpu-memory-utilization` is for an estimate, and {named[0]} already states the budget",
                hint="drop one of the two",
            )
        if not named and self.gpu is None:
            raise InputError(
                "the device's KV budget is not known",
                hint="give `--hbm-kv 28GiB`, a running server with `--metrics URL`, its start-up `--log FILE`, or "
                "`--gpu NAME` for an estimate",
            )

    @property
    def ranks(self) -> int:
        """Devices of one replica."""
        return self.tp * self.pp


def choose_engine(named: Engine | None, backend: str | None) -> tuple[Engine, str]:
    """The server and the backend, each completing the other; InputError where they contradict."""
    if backend is not None and backend not in BACKENDS:
        from warmset.errors import UnknownName

        raise UnknownName("backend", backend, BACKENDS, hint=f"known: {', '.join(BACKENDS)}")
    server = named or engine("sglang" if backend == "hicache" else "vllm")
    if server.server == "lmcache":
        raise InputError(
            f"`--engine {server}` names a cache, not a server",
            hint="name the server, and LMCache by `--lmcache`",
        )
    chosen = backend or ("hicache" if server.server == "sglang" else "native")
    if (chosen == "hicache") != (server.server == "sglang"):
        other = "sglang" if chosen == "hicache" else "vllm"
        raise InputError(
            f"backend `{chosen}` does not belong to `{server}`",
            hint=f"use `--engine {other}`, or drop `--backend`",
        )
    return server, chosen


def _whole(name: str, value: int, low: int, high: int) -> None:
    if value < low:
        raise InputError(f"{name} `{value}` is below {low}", hint=f"give a whole number from {low}")
    if value > high:
        raise InputError(f"{name} `{value}` is absurdly large", hint=f"the most that is accepted is {high:,}")


def _positive(option: str, value: float | None, high: float = float("inf")) -> None:
    if value is not None and not 0 < value <= high:
        raise InputError(
            f"`{option}` of `{value:g}` is not {'above 0' if value <= 0 else 'a rate of any machine'}",
            hint="check the number and its unit",
        )
