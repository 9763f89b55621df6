"""Host memory is promised once: what the ranks take themselves is not there for a tier."""

import pytest

from warmset.plan.host import PROCESS_BYTES_PER_RANK, host
from warmset.units import GIB


@pytest.mark.parametrize("ranks", [1, 2, 8, 16])
@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("gib", [8, 64, 128, 512, 2048])
def test_a_host_never_leaves_more_than_a_container_of_its_size(ranks: int, replicas: int, gib: int) -> None:
    alone = host(gib * GIB, None, None, ranks, replicas)
    inside = host(None, gib * GIB, None, ranks, replicas)
    both = host(gib * GIB, gib * GIB, None, ranks, replicas)
    assert alone.available_bytes is not None
    assert inside.available_bytes is not None
    assert alone.available_bytes <= inside.available_bytes
    assert both.available_bytes == min(alone.available_bytes, inside.available_bytes)
    taken = replicas * (alone.available_bytes + ranks * PROCESS_BYTES_PER_RANK)
    assert alone.available_bytes == 0 or taken <= gib * GIB


def test_eight_ranks_on_a_small_host() -> None:
    assert host(64 * GIB, None, None, 8, 1).available_bytes == 16 * GIB
    assert host(512 * GIB, None, None, 1, 1).available_bytes == 460 * GIB
