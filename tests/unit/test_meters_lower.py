"""Numbers by tier, held against a page of a real server."""

from pathlib import Path

import pytest

from warmset.meters import meters, scrape, window
from warmset.servers import engine

OWN = """
vllm:kv_offload_tiering_chunk_queries_total{engine="0",tier="1:WarmsetTier"} 40.0
vllm:kv_offload_tiering_chunk_hits_total{engine="0",tier="1:WarmsetTier"} 30.0
vllm:warmset_tier_loads_total{engine="0",tier="WarmsetTier",result="corrupt"} 2.0
vllm:warmset_tier_lookups_total{engine="0",tier="WarmsetTier",result="expired"} 3.0
"""


def test_a_real_page_of_two_tiers(shared: Path) -> None:
    page = (shared / "metrics" / "vllm-0.32.0-tiering-fs.prom").read_text()
    host, disk = meters(window(None, scrape(page))).tiers
    assert (host.tier, disk.tier) == ("0:primary", "1:fs")
    assert (host.queried_chunks, host.hit_chunks) == (248, None)
    assert (disk.queried_chunks, disk.hit_chunks) == (64, 62)
    assert disk.hit_ratio == 62 / 64
    assert (disk.read_bytes, disk.write_bytes) == (32505856, 65011712)
    assert disk.read_seconds == pytest.approx(0.017623141)


def test_a_tier_that_tells_what_became_of_its_blocks() -> None:
    (tier,) = meters(window(None, scrape(OWN)), engine("vllm@0.32")).tiers
    assert tier.blocks == {"loads.corrupt": 2, "lookups.expired": 3}
    assert tier.hit_ratio == 0.75
