"""Known faults of the load path, from a data file: which of them a window shows."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from warmset.meters.meters import Meters
from warmset.servers import Version

# Data types that every attention backend reloads; others are the ones that reports name.
_PLAIN_KV = frozenset({"", "auto", "bfloat16", "float16", "half", "float32"})


@dataclass(frozen=True, slots=True)
class Fault:
    """A configuration in which the tier cannot work; see the data file for the fields."""

    id: str
    server: str
    since: str
    until: str
    when: str
    part: str
    fix: str
    source: str


@cache
def faults() -> tuple[Fault, ...]:
    """Every known fault, in the order of asking."""
    import yaml

    text = (files("warmset.meters") / "data" / "faults.yaml").read_text(encoding="utf-8")
    return tuple(Fault(**row) for row in yaml.safe_load(text))


def shown(m: Meters) -> Fault | None:
    """The first known fault whose signature the window shows; None where anything was loaded."""
    if (m.external_hit_tokens or 0) > 0 or (m.load_bytes or 0) > 0:
        return None
    return next((fault for fault in faults() if _applies(fault, m)), None)


def _applies(fault: Fault, m: Meters) -> bool:
    if fault.server != m.engine.server or not _in_range(fault, m):
        return False
    if fault.when.startswith("log:"):
        return fault.when.removeprefix("log:") in m.tier.log_faults
    if fault.when == "prefix_caching_off":
        return m.tier.prefix_caching is False
    # The others store and never find: without stores, and without anything evicted from the device, nothing is shown.
    stored = (m.store_bytes or 0) > 0 or (m.store_tokens or 0) > 0
    pool, computed = m.tier.device_pool_tokens, m.tier.lifetime_computed_tokens
    evicted = pool is None or computed is None or computed > pool * m.tier.engines
    asked = m.external_query_tokens is None or m.external_query_tokens > 0
    signature = m.tier.speculative if fault.when == "speculative" else m.tier.kv_dtype not in _PLAIN_KV
    return signature and stored and evicted and asked


def _in_range(fault: Fault, m: Meters) -> bool:
    """A version that was guessed from metric names cannot rule a fault out."""
    if m.engine_assumed:
        return True
    version = m.engine.version
    after = not fault.since or version >= Version.parse(fault.since)
    return after and (not fault.until or version <= Version.parse(fault.until))
