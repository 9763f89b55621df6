"""PromQL for the meters, from the metric tables of one server version.

An expression exists only where the version exports what it needs; dashboards, rules and alerts are built from
the same ones.
"""

from dataclasses import dataclass

from warmset.servers import Engine

RANKS = "tp_rank, pp_rank, moe_ep_rank, worker_id, role"


@dataclass(frozen=True, slots=True)
class Queries:
    """Expressions of one version over `window` for the series that `selector` picks, grouped `by` labels."""

    engine: Engine
    window: str = "5m"
    selector: str = ""
    by: str = "model_name"

    def rate(self, role: str, extra: str = "") -> str | None:
        """Per-second increase of a counter (or of a histogram's sum), added over engines, once per rank."""
        metric = self.engine.metric(role)
        if metric is None:
            return None
        name = metric.name + ("_sum" if metric.type == "histogram" else "")
        matchers = ",".join(part for part in (self.selector, extra) if part)
        inner = f"rate({name}{{{matchers}}}[{self.window}])"
        if any(label in metric.labels for label in RANKS.split(", ")) and metric.unit != "bytes":
            inner = f"max without ({RANKS}) ({inner})"
        return f"sum by ({self.by}) ({inner})"

    def quantile(self, role: str, q: float) -> str | None:
        """A quantile of a histogram."""
        metric = self.engine.metric(role)
        if metric is None or metric.type != "histogram":
            return None
        rate = f"rate({metric.name}_bucket{{{self.selector}}}[{self.window}])"
        return f"histogram_quantile({q:g}, sum by (le, {self.by}) ({rate}))"

    def prompt_tokens(self) -> str | None:
        """Prompt tokens per second: the denominator of every hit ratio."""
        return self.rate("prompt_tokens")

    def device_hits(self) -> str | None:
        """Prompt tokens per second that the device pool had."""
        if self.engine.server == "sglang":
            return self.rate("prompt_tokens_cached_by_source", 'cache_source="device"')
        split = self.rate("prompt_tokens_by_source", 'source="local_cache_hit"')
        hits, lookups, whole = (
            self.rate("device_hit_tokens"),
            self.rate("device_query_tokens"),
            self.prompt_tokens(),
        )
        if split or hits is None or lookups is None or whole is None:
            return split or hits
        # Versions without the split count every retried lookup, the oldest in blocks: only the ratio holds.
        return f"({hits} / ({lookups} > 0) * {whole})"

    def external_hits(self) -> str | None:
        """Prompt tokens per second that the tier supplied."""
        if self.engine.server == "sglang":
            return self.rate("prompt_tokens_cached_by_source", 'cache_source=~"host|storage"')
        return self.rate("external_hit_tokens") or self.rate("mp_hit_tokens")

    def computed(self) -> str | None:
        """Prompt tokens per second that were computed."""
        split = self.rate("prompt_tokens_by_source", 'source="local_compute"')
        return split or self.rate("prefill_computed_tokens")

    def ratio(self, part: str | None) -> str | None:
        """A share of the prompt tokens, empty without traffic."""
        whole = self.prompt_tokens()
        return None if part is None or whole is None else f"{part} / ({whole} > 0)"

    def combined_ratio(self) -> str | None:
        """Device and tier together, as a share of the prompt tokens."""
        if self.engine.server == "sglang":  # a source has no series before it supplied something
            return self.ratio(self.rate("prompt_tokens_cached_by_source", 'cache_source!="total"'))
        device, external, whole = self.device_hits(), self.external_hits(), self.prompt_tokens()
        if device is None or external is None or whole is None:
            return None
        return f"({device} + {external}) / ({whole} > 0)"

    def load_bytes(self) -> str | None:
        """Bytes per second from the tier."""
        return self.rate("load_bytes") or self.rate("transfer_bytes", 'transfer_type="CPU_to_GPU"')

    def store_bytes(self) -> str | None:
        """Bytes per second to the tier."""
        return self.rate("store_bytes") or self.rate("transfer_bytes", 'transfer_type="GPU_to_CPU"')

    def paid(self) -> str | None:
        """Request-seconds per second paid for loads."""
        return self.rate("load_time") or self.rate("transfer_time", 'transfer_type="CPU_to_GPU"')

    def saved(self) -> str | None:
        """Prefill-seconds per second saved: the upper estimate, by the rate of the computed tokens."""
        external, prefill, computed = self.external_hits(), self.rate("prefill_time"), self.computed()
        if external is None or prefill is None or computed is None:
            return None
        return f"{external} * {prefill} / ({computed} > 0)"
