"""A shared prefix is kept once in whole chunks only: against a tier that stores chunks in a set."""

from hypothesis import given, settings
from hypothesis import strategies as st

from warmset.geometry import uniform
from warmset.plan import PlanRequest, make_plan

PER_TOKEN = 2 * 2 * 8 * 64 * 4  # K and V of 2 bytes, 8 heads of 64, 4 layers
CHUNKS = {"native": 16, "lmcache": 256}


@given(
    sessions=st.integers(2, 60),
    context=st.integers(1, 900),
    share=st.floats(0, 1),
    backend=st.sampled_from(sorted(CHUNKS)),
)
@settings(deadline=None, max_examples=120)
def test_the_tier_holds_what_a_set_of_chunks_holds(
    sessions: int, context: int, share: float, backend: str
) -> None:
    shared, chunk = int(context * share), CHUNKS[backend]
    stored = set()
    for session in range(sessions):
        for start in range(0, context, chunk):
            ends = min(start + chunk, context)
            # A chunk is known by all that comes before it: it is the same for all only within the prefix.
            stored.add((start, ends, None if ends <= shared and ends - start == chunk else session))
    tokens = sum(chunk if backend == "native" else end - start for start, end, _ in stored)
    plan = make_plan(
        PlanRequest(
            geometry=uniform(layers=4, kv_heads=8, head_dim=64),
            kv_dtype="fp16",
            sessions=sessions,
            context_tokens=context,
            shared_prefix_tokens=shared,
            hbm_kv_bytes=1 << 30,
            backend=backend,
        )
    )
    assert plan.tier.warm_set_bytes >= tokens * PER_TOKEN
    # And no more than what the last, partial block of each session adds on the device.
    assert plan.tier.warm_set_bytes <= (tokens + sessions * 16) * PER_TOKEN
