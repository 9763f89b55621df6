"""From sizes and speeds to one of five verdicts, with the reasons in the order in which they count."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from warmset.hardware import Storage
from warmset.plan.below import Below
from warmset.plan.charge import Charge
from warmset.plan.host import Placement
from warmset.plan.record import BreakEven, Decision, Demand, Device, Host, LowerTier
from warmset.units import format_bytes, format_ratio, format_size, format_tokens

# Below this the tier loads slower than the model computes: every hit would cost time.
_BREAK_EVEN = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Both rules' results, in the tier's currency.

    `least_bytes` is the one that applies without its headroom. `device_equivalent_bytes` is what the device holds
    without any connector, in that currency: a tier must hold more.
    """

    warm_set_bytes: int
    inclusive_bytes: int
    exclusive_bytes: int
    least_bytes: int
    device_equivalent_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A decision with the sizes that it leads to."""

    decision: Decision
    recommended_bytes: int = 0
    lower: LowerTier | None = None


def sizes(
    demand: Demand, alone_device_bytes: int, device: Device, charge: Charge, headroom_ratio: float
) -> Sizes:
    """Apply both rules: warm set × (1 + headroom), and (warm set − device budget) × (1 + headroom).

    `demand` is what the warm set costs with the backend's connector attached, `alone_device_bytes` what the device
    charges for it without one.
    """
    margin = 1 + Fraction(str(headroom_ratio))
    stored = charge.stored_bytes(demand.sessions, demand.shared_prefix_tokens)
    held = stored * device.kv_budget_bytes / demand.device_bytes
    return Sizes(
        warm_set_bytes=_up(stored),
        inclusive_bytes=_up(stored * margin),
        exclusive_bytes=_up(max(Fraction(0), stored - held) * margin),
        least_bytes=_up(stored if charge.is_inclusive else max(Fraction(0), stored - held)),
        device_equivalent_bytes=_up(stored * device.kv_budget_bytes / alone_device_bytes),
    )


def decide(
    demand: Demand,
    device: Device,
    charge: Charge,
    size: Sizes,
    placed: Placement,
    host: Host,
    speeds: tuple[BreakEven, ...],
    stores: tuple[Storage, ...],
    lower: Below,
    fixes: tuple[str, ...],
    *,
    unified: tuple[str, ...],
) -> Outcome:
    """Decide.

    `lower` is what the backend can have below host memory. `fixes` are what would help where a single context does
    not fit the device; `unified`, where host and device share one memory, are the flags that divide it.
    """
    if device.sessions < 1:
        return Outcome(decision=does_not_fit(demand, device, fixes))
    # The server's own block is no reason for a tier: what it displaces is less than a session.
    if demand.device_bytes <= device.block_bytes:
        return Outcome(decision=_leave_off(demand, device))
    over = demand.device_bytes - device.usable_bytes
    need = (
        f"the warm set takes {device_size(demand)} and {_room(device, format_size)}: {format_size(over)} would be "
        "computed again",
        *_why_less(demand.device_bytes, device, format_size),
        *_at_best(demand.device_bytes, device, "the warm set"),
    )
    return weigh(charge, size, placed, host, speeds, stores, lower, need, unified=unified)


def device_size(demand: Demand) -> str:
    """What the warm set takes on the device; `in whole blocks` where that reads differently from its content."""
    content, taken = format_size(demand.warm_set_bytes), format_size(demand.device_bytes)
    return taken if taken == content else f"{taken} in whole blocks"


def _room(device: Device, form: Callable[[int], str]) -> str:
    """What sessions can hold of the pool, which is said apart only where it reads differently."""
    usable, budget = form(device.usable_bytes), form(device.kv_budget_bytes)
    return (
        f"the device holds {budget}"
        if usable == budget
        else f"sessions can hold {usable} of the device's {budget}"
    )


def _why_less(needed: int, device: Device, form: Callable[[int], str]) -> tuple[str, ...]:
    """Why sessions cannot hold all of the pool, where `needed` bytes would fit it but for that or it reads less."""
    if needed > device.kv_budget_bytes and form(device.usable_bytes) == form(device.kv_budget_bytes):
        return ()
    wasted = device.kv_budget_bytes - device.block_bytes
    if needed > device.block_bytes and wasted >= device.bytes_per_block:
        return (
            "every pipeline rank holds only as many blocks as the one with the most layers: "
            f"{format_size(wasted)} of the pool hold none",
        )
    return (_own_block(device),) if device.reserved_bytes else ()


def _at_best(needed: int, device: Device, what: str) -> tuple[str, ...]:
    """That the high end of an estimate would hold what its best guess does not."""
    if not device.estimated or needed + device.reserved_bytes > device.high_bytes:
        return ()
    return (
        f"with the high estimate of {format_size(device.high_bytes)} {what} would fit the device: measure with "
        "`--metrics` or `--log`",
    )


def _own_block(device: Device) -> str:
    return f"the server keeps one block of {format_bytes(device.reserved_bytes)} to itself"


def weigh(
    charge: Charge,
    size: Sizes,
    placed: Placement,
    host: Host,
    speeds: tuple[BreakEven, ...],
    stores: tuple[Storage, ...],
    lower: Below,
    need: tuple[str, ...],
    *,
    unified: tuple[str, ...],
) -> Outcome:
    """Whether and where the tier that `need` asks for pays: the host first, then what is below it."""
    speed = speeds[0]
    if unified:
        shared = (
            "host and device share one memory here: a host tier would take the memory that it should free"
        )
        return Outcome(
            decision=Decision(verdict="recompute", reasons=(shared, *need), fixes=_more_pool(unified))
        )
    if speed.ratio is not None and speed.ratio < _BREAK_EVEN:
        slow = (
            f"loading from the host reaches {speed.load_tokens_per_second:,.0f} tokens/s and prefill "
            f"{speed.prefill_tokens_per_second:,.0f}: computing again is faster"
        )
        return Outcome(decision=Decision(verdict="recompute", reasons=(slow, *need)))
    wanted = size.inclusive_bytes if charge.is_inclusive else size.exclusive_bytes
    if host.available_bytes is None or placed.host_bytes(wanted) <= host.available_bytes:
        return Outcome(decision=_offload(charge, size, host, speed, need, wanted), recommended_bytes=wanted)
    return _beyond_the_host(charge, size, placed, host, speeds, stores, lower, need, wanted)


def _leave_off(demand: Demand, device: Device) -> Decision:
    share = demand.device_bytes / device.kv_budget_bytes
    reasons = [
        f"the warm set takes {device_size(demand)} of the device's {format_size(device.kv_budget_bytes)} "
        f"({f'{share:.0%}' if share >= 0.01 else 'under 1%'}): a tier would only copy it"
    ]
    if demand.device_bytes > device.usable_bytes:
        missing = device.bytes_per_block - device.kv_budget_bytes % device.bytes_per_block
        reasons.append(
            f"{_own_block(device)}: {format_bytes(missing)} more on the device would hold the last session"
        )
    if device.estimated and demand.device_bytes > device.low_bytes:
        over = demand.device_bytes - device.low_bytes
        reasons.append(
            f"it is {format_size(over)} more than the low estimate of {format_size(device.low_bytes)}: measure with "
            "`--metrics` or `--log`"
        )
    return Decision(verdict="leave_off", reasons=tuple(reasons))


def does_not_fit(demand: Demand, device: Device, fixes: tuple[str, ...]) -> Decision:
    """The device cannot hold one session: no tier can fix that."""
    if device.kv_budget_bytes <= 0:
        reasons: tuple[str, ...] = ("the weights leave no device memory for KV cache",)
    else:
        reasons = (
            f"one session of {format_tokens(demand.context_tokens)} takes {_each_size(demand)} and "
            f"{_room(device, format_bytes)}",
            *_why_less(demand.device_bytes_per_session, device, format_bytes),
        )
    reasons += _at_best(demand.device_bytes_per_session, device, "one session")
    tier = "no tier can fix that: a running request must be on the device with all of its KV cache"
    return Decision(verdict="does_not_fit", reasons=(*reasons, tier), fixes=fixes)


def _each_size(demand: Demand) -> str:
    content, taken = format_bytes(demand.bytes_per_session), format_bytes(demand.device_bytes_per_session)
    return taken if taken == content else f"{taken} in whole blocks"


def _offload(
    charge: Charge, size: Sizes, host: Host, speed: BreakEven, need: tuple[str, ...], wanted: int
) -> Decision:
    reasons = [*need]
    if speed.ratio is not None:
        reasons.append(f"loading is {speed.ratio:,.1f} times as fast as computing again")
    if charge.is_inclusive:
        reasons.append(
            "the tier also holds what the device holds, so it must hold the whole warm set, not just the rest"
        )
    if host.available_bytes is not None:
        reasons.append(
            f"{format_size(wanted)} fit the {format_size(host.available_bytes)} that {host.limited_by} leaves"
        )
    return Decision(verdict="offload", reasons=tuple(reasons))


def _beyond_the_host(
    charge: Charge,
    size: Sizes,
    placed: Placement,
    host: Host,
    speeds: tuple[BreakEven, ...],
    stores: tuple[Storage, ...],
    lower: Below,
    need: tuple[str, ...],
    wanted: int,
) -> Outcome:
    """What to do where the host does not have room for a tier of `wanted` bytes."""
    available = host.available_bytes or 0
    fits = min(wanted, placed.tier_within(available))
    adds = fits > size.device_equivalent_bytes if charge.is_inclusive else fits > 0
    taken = placed.host_bytes(wanted)
    short = (
        f"the tier takes {format_size(taken)} and {host.limited_by} leaves {format_size(available)}: "
        f"{format_size(taken - available)} too little"
    )
    if adds and fits >= size.least_bytes:
        left = (
            f"{format_size(fits)} of host memory hold all of it with {format_ratio(fits / size.least_bytes - 1)} of "
            f"headroom instead of {format_ratio(wanted / size.least_bytes - 1)}"
        )
        decision = Decision(
            verdict="offload",
            reasons=(*need, short, left),
            fixes=_more_memory(host, wanted, taken, "all the headroom"),
        )
        return Outcome(decision=decision, recommended_bytes=fits)
    possible = [pair for pair in zip(stores, speeds[1:], strict=True) if pair[0].kind in lower.kinds]
    useful = [(store, line) for store, line in possible if line.ratio is None or line.ratio >= _BREAK_EVEN]
    if useful:
        alone = fits
        fits = min(wanted, lower.placed.tier_within(available))
        adds = fits > size.device_equivalent_bytes if charge.is_inclusive else fits > 0
        store, line = useful[0]
        reasons = [*need, short]
        reasons.append(
            (f"{store.label} below it holds the rest" if fits < wanted else f"{store.label} goes below it")
            + _pace(line)
        )
        if fits > alone:
            reasons.append(
                f"above a lower tier the host part is {lower.placed.how}: {format_size(fits)} of it fit, and of a host "
                f"tier alone only {format_size(alone)}"
            )
        if not adds:
            reasons.append(
                f"host memory alone would hold no more than the device already does "
                f"({format_size(size.device_equivalent_bytes)}): it only stages what the lower tier loads"
            )
        below = LowerTier(
            storage=store.name, kind=store.kind, recommended_bytes=size.inclusive_bytes, staging_bytes=fits
        )
        decision = Decision(
            verdict="add_lower_tier", reasons=tuple(reasons), fixes=_more_memory(host, wanted, taken)
        )
        return Outcome(decision=decision, recommended_bytes=fits if adds else 0, lower=below)
    none = "every lower tier considered loads slower than the model computes" if possible else lower.why_not
    fixes = (*_more_memory(host, wanted, taken), *(() if possible else lower.instead))
    if adds:
        reasons = [
            *need,
            short,
            none,
            f"{format_size(fits)} of host memory still keep part of the warm set",
        ]
        decision = Decision(verdict="offload", reasons=tuple(reasons), fixes=fixes)
        return Outcome(decision=decision, recommended_bytes=fits)
    reasons = [
        *need,
        short,
        f"host memory would hold no more than the device already does ({format_size(size.device_equivalent_bytes)})",
        none,
    ]
    return Outcome(decision=Decision(verdict="recompute", reasons=tuple(reasons), fixes=fixes))


def _pace(line: BreakEven) -> str:
    return "" if line.ratio is None else f", and loads {line.ratio:,.1f} times as fast as computing again"


def _more_memory(host: Host, wanted: int, taken: int, what: str = "the whole warm set") -> tuple[str, ...]:
    limit = (
        "raise the container's memory limit"
        if host.limited_by != "host memory"
        else "use a host with more memory"
    )
    return (
        f"{limit}: {what} in host memory needs a tier of {format_size(wanted)}"
        + (f", which takes {format_size(taken)}" if format_size(taken) != format_size(wanted) else ""),
    )


def _more_pool(flags: tuple[str, ...]) -> tuple[str, ...]:
    return (f"give the device pool more of the memory ({', '.join(f'`{flag}`' for flag in flags)})",)


def _up(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)
