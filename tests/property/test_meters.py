"""Pages survive writing and reading; quantiles, intervals and increases keep their promises."""

import json
import math

import jsonschema
from hypothesis import given, settings
from hypothesis import strategies as st

from warmset.errors import InputError
from warmset.meters import judge, meters
from warmset.meters.baseline import of
from warmset.meters.exposition import Sample, parse
from warmset.meters.measurement import Measurement
from warmset.meters.quantiles import Histogram, histogram_quantile, proportion, quantile
from warmset.meters.rates import increase, track
from warmset.meters.snapshot import Snapshot, scrape, write_exposition
from warmset.meters.window import window
from warmset.report.data import schema_text, to_json
from warmset.report.measure import payload

SCHEMA = jsonschema.Draft202012Validator(json.loads(schema_text("measure")))

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
@given(st.integers(0, 10**12), st.integers(0, 10**12))
def test_a_window_counts_from_the_start_or_from_a_reset(before: int, after: int) -> None:
    page = 'vllm:prompt_tokens_total{{engine="0",model_name="m"}} {!r}\n'
    gained = window(scrape(page.format(before)), scrape(page.format(after))).increase(
        "vllm:prompt_tokens_total"
    )
    assert gained == (after - before if after >= before else after)


COUNTERS = (
    "prompt_tokens_total",
    "prefix_cache_queries_total",
    "prefix_cache_hits_total",
    "external_prefix_cache_queries_total",
    "external_prefix_cache_hits_total",
    "kv_offload_load_bytes_total",
    "kv_offload_load_time_total",
    "kv_offload_store_bytes_total",
    "request_prefill_time_seconds_sum",
    "num_preemptions_total",
    "generation_tokens_total",
    "kv_offload_cpu_allocation_size_sum",
)
wild = st.one_of(
    st.floats(), st.floats(0, 1e9), st.integers(0, 10**6), st.sampled_from([0, 0.0, 1e18, 5e-324])
)


@settings(deadline=None, max_examples=60)
@given(
    st.dictionaries(st.sampled_from(COUNTERS), wild),
    st.lists(wild, min_size=4, max_size=4),
    st.one_of(st.none(), st.floats(1, 1e15)),
)
def test_any_page_ends_in_valid_json(
    counters: dict[str, float], buckets: list[float], tier: float | None
) -> None:
    lines = [f"vllm:{name} {value!r}" for name, value in counters.items()]
    for le, value in zip(("0.1", "1", "10", "+Inf"), buckets, strict=True):
        lines.append(f'vllm:time_to_first_token_seconds_bucket{{le="{le}"}} {value!r}')
    lines += [
        f"vllm:time_to_first_token_seconds_count {buckets[-1]!r}",
        f"vllm:time_to_first_token_seconds_sum {buckets[0]!r}",
    ]
    lines.append('vllm:cache_config_info{block_size="16",num_gpu_blocks="100"} 1')
    m = meters(window(None, scrape("\n".join(lines) + "\n")), tier_bytes=tier)
    said = payload(Measurement(m, judge(m)))
    assert not list(SCHEMA.iter_errors(json.loads(to_json(said))))
    compared = payload(Measurement(m, judge(m, of(m, said)), of(m, said)))
    to_json(compared)
