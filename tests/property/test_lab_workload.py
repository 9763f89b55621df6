"""Workloads: what is the same text has the same tokens, and a trace's prefix structure is kept exactly."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from warmset.lab.builtin import BUILTIN, Shape, builtin
from warmset.lab.predict import Tiers, predict
from warmset.lab.traced import Traced
from warmset.lab.workload import Output, Text, each, literal, resolve, symbolic, symbols
from warmset.traces.record import Trace


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**32),
    st.lists(st.integers(0, 2**31), min_size=1, max_size=3),
    st.integers(0, 300),
    st.integers(0, 300),
)
def test_a_longer_text_begins_with_the_shorter(seed, name, a, b):
    short, long = (literal(Text(tuple(name), n), seed) for n in sorted((a, b)))
    assert long[: len(short)].tolist() == short.tolist()


@st.composite
def traces(draw):
    """Chains that share prefixes: block i of a chain is named by the chain's first i+1 letters."""
    words = draw(st.lists(st.text("ab", min_size=1, max_size=6), min_size=1, max_size=12))
    names = {}
    ids = [[names.setdefault(word[: i + 1], len(names)) for i in range(len(word))] for word in words]
    block = draw(st.sampled_from([16, 32, 64]))
    tails = [draw(st.integers(1, block)) for _ in words]
    lengths = [len(word) for word in words]
    return Trace(
        np.array([i for chain in ids for i in chain]),
        np.cumsum([0, *lengths]),
        np.full(len(words), np.nan),
        np.array([(n - 1) * block + t for n, t in zip(lengths, tails, strict=True)]),
        np.full(len(words), 3),
        None,
        block,
        None,
        len(names),
    )


@settings(max_examples=60, deadline=None)
@given(traces(), st.integers(0, 1000))
def test_a_traces_prefix_structure_is_kept_exactly(trace, seed):
    prompts = [symbolic(request, seed) for request in each(Traced(trace, "t", seed, trace.requests))]
    for r, prompt in enumerate(prompts):
        assert len(prompt) == trace.input_tokens[r]
        for other in range(r):
            chains = [trace.block_ids[trace.offsets[i] : trace.offsets[i + 1]] for i in (r, other)]
            shared = next(
                (i for i, (a, b) in enumerate(zip(*chains, strict=False)) if a != b), min(map(len, chains))
            )
            expected = min(shared * trace.block_tokens, len(prompt), len(prompts[other]))
            length = min(len(prompt), len(prompts[other]))
            same = prompt[:length] == prompts[other][:length]
            common = length if same.all() else int(np.argmin(same))
            # The first tokens of two blocks that differ may be equal by chance.
            assert common in (expected, expected + 1)


def test_outputs_are_put_in_their_places():
    prompt = np.concatenate([literal(Text((1,), 4), 0), symbols(7, 3)])
    assert resolve(prompt, {7: [10, 11, 12, 13]})[4:] == [10, 11, 12]


def test_builtin_workloads_repeat_and_continue_only_what_came_before():
    for name in BUILTIN:
        shape = Shape(159 * 32, 400 * 32, 60, None, 7)
        one, two = builtin(name, shape), builtin(name, shape)
        assert list(each(one)) == list(each(two))
        assert len(one) == 60
        for number, request in enumerate(each(one)):
            assert request.input_tokens + request.output_tokens <= 159 * 32
            for piece in request.pieces:
                if isinstance(piece, Output):
                    assert piece.request < number
                    assert piece.tokens <= one[piece.request].output_tokens


@settings(max_examples=25, deadline=None)
@given(traces(), st.integers(30, 60), st.integers(1, 60))
def test_predicted_hits_are_bounded_and_a_small_tier_adds_nothing(trace, device, host):
    workload = Traced(trace, "t", 1, trace.requests, output_tokens=1)
    alone = predict(workload, Tiers(16, device))
    both = predict(workload, Tiers(16, device, host_chunks=host))
    assert alone.host_hit_tokens == 0
    for (on_device, in_host), request in zip(both.per_request, each(workload), strict=True):
        assert 0 <= on_device < request.input_tokens
        assert on_device + in_host <= request.input_tokens
