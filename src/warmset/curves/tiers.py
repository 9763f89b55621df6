"""Two tiers over one curve: how much of the hits the device serves, and what the host tier adds."""

from dataclasses import dataclass
from typing import Literal

from warmset.curves.record import Curve, check_capacity

Inclusion = Literal["inclusive", "exclusive"]


@dataclass(frozen=True, slots=True)
class TierHits:
    """Hit tokens of a device pool and a host tier below it.

    Attributes:
        device_blocks, host_blocks: capacities.
        device_hit_tokens: served by the device; host_hit_tokens: served by the host beyond those.
    """

    device_blocks: int
    host_blocks: int
    device_hit_tokens: int
    host_hit_tokens: int

    @property
    def hit_tokens(self) -> int:
        """Tokens served by either."""
        return self.device_hit_tokens + self.host_hit_tokens


def two_tiers(
    curve: Curve, device_blocks: int, host_blocks: int, *, inclusion: Inclusion = "inclusive"
) -> TierHits:
    """Hits of a device pool of `device_blocks` above a host tier of `host_blocks`, both LRU.

    An inclusive tier also holds what the device holds: it is written when blocks are computed and touched
    when they are hit on the device, so both tiers see every access and together serve what an LRU of the
    larger one serves. vLLM's host tier is inclusive: a tier no larger than the device pool adds nothing.
    An exclusive tier holds what the device evicted, so the capacities add.
    """
    check_capacity(device_blocks, zero=True)
    check_capacity(host_blocks, zero=True)
    joint = max(device_blocks, host_blocks) if inclusion == "inclusive" else device_blocks + host_blocks
    on_device = curve.hit_tokens_at(device_blocks)
    return TierHits(device_blocks, host_blocks, on_device, curve.hit_tokens_at(joint) - on_device)
