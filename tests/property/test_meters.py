"""Pages survive writing and reading; quantiles, intervals and increases keep their promises."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from warmset.errors import InputError
from warmset.meters.exposition import Sample, parse
from warmset.meters.quantiles import Histogram, histogram_quantile, proportion, quantile
from warmset.meters.rates import increase, track
from warmset.meters.snapshot import Snapshot, scrape, write_exposition
from warmset.meters.window import window

names = st.from_regex(r"vllm:[a-z_]{1,8}", fullmatch=True)
labels = st.dictionaries(
    st.from_regex(r"[a-z]{1,5}", fullmatch=True),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8),
    max_size=3,
).map(lambda d: tuple(sorted(d.items())))
values = st.floats(allow_nan=False)


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(names, st.dictionaries(labels, values, min_size=1, max_size=3), max_size=4))
def test_written_pages_read_the_same(rows: dict[str, dict[tuple[tuple[str, str], ...], float]]) -> None:
    samples = {
        n: [Sample(label, v) for label, v in r.items()] for n, r in rows.items() if not n.endswith("_bucket")
    }
    assert parse(write_exposition(Snapshot(samples, {}))).samples == samples


@settings(deadline=None, max_examples=150)
@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse(text)
    except InputError as error:
        assert len(error.message) < 400


counts = st.lists(st.integers(0, 1000), min_size=2, max_size=12)


@settings(deadline=None, max_examples=100)
@given(counts, st.floats(0.001, 0.999))
def test_the_interval_holds_the_quantile(steps: list[int], q: float) -> None:
    bounds = (*(float(i + 1) for i in range(len(steps) - 1)), math.inf)
    total, cumulative = 0, []
    for step in steps:
        total += step
        cumulative.append(float(total))
    found = quantile(Histogram(bounds, tuple(cumulative), 0.0, float(total)), q)
    value = histogram_quantile(q, zip(bounds, cumulative, strict=True))
    assert (found is None) == (not math.isfinite(value))
    if found is not None:
        assert found.value == value
        assert found.low is not None
        assert found.low <= value
        assert found.high is None or value <= found.high


@settings(deadline=None)
@given(st.floats(0, 1), st.integers(1, 10**6))
def test_a_share_lies_in_its_interval(share: float, n: int) -> None:
    e = proportion(share, n)
    assert e.low is not None
    assert e.high is not None
    assert 0 <= e.low <= e.value <= e.high <= 1


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=30))
def test_an_increase_is_never_negative(values: list[float]) -> None:
    samples = [(10.0 * i, v) for i, v in enumerate(values)]
    found = increase(track(samples), 0, 10.0 * (len(values) - 1))
    assert found is not None
    assert found >= 0


@settings(deadline=None)
@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_a_window_counts_from_the_start_or_from_a_reset(before: float, after: float) -> None:
    page = 'vllm:prompt_tokens_total{{engine="0",model_name="m"}} {!r}\n'
    gained = window(scrape(page.format(before)), scrape(page.format(after))).increase(
        "vllm:prompt_tokens_total"
    )
    assert gained == (after - before if after >= before else after)
