"""Reading pages, windows and quantiles, and the verdicts of real runs."""

import json
import math
import re
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from warmset.errors import InputError, UnknownName
from warmset.meters import Meters, exposition, judge, meters, scrape, window
from warmset.meters.baseline import of
from warmset.meters.exposition import Sample, parse
from warmset.meters.log import LogFacts, read_log
from warmset.meters.measurement import Measurement
from warmset.meters.prometheus import spans
from warmset.meters.quantiles import Histogram, histogram_quantile, merged, quantile, rank_interval
from warmset.meters.rates import increase, track
from warmset.meters.snapshot import merge, write_exposition
from warmset.meters.sources import addresses
from warmset.meters.thresholds import DEFAULTS, with_settings
from warmset.meters.verdict import NAMES
from warmset.meters.watching import Watch
from warmset.report.measure import payload
from warmset.servers import engine

L = '{engine="0",model_name="m"}'


def test_formats() -> None:
    page = parse(
        "# HELP a b\n# TYPE a_total counter\n"
        'a_total{x="1",y="q\\"\\\\\\n}"} 5\n'
        'a_total { y = "2" , x="z", } 0x1p3 1700000000000\n'
        '{"a.b", le="+Inf"} NaN\n'
        "b +Inf\r\n"
    )
    assert page.samples["a_total"] == [
        Sample((("x", "1"), ("y", 'q"\\\n}')), 5.0),
        Sample((("x", "z"), ("y", "2")), 8.0),
    ]
    assert math.isnan(page.samples["a.b"][0].value)
    assert page.samples["b"][0].value == math.inf
    assert page.time_seconds == 1_700_000_000


def test_openmetrics() -> None:
    text = '# TYPE a counter\n# UNIT a_s s\na_total{x="1"} 5 1700000000.5 # {t="t"} 0.3 1.0\na_created 1\n# EOF\n'
    page = parse(text)
    assert page.samples["a_total"][0].value == 5
    assert page.time_seconds == 1_700_000_000.5
    with pytest.raises(InputError, match="EOF"):
        parse(text.replace("# EOF\n", ""))
    with pytest.raises(InputError, match="after `# EOF`"):
        parse(text + "b 1\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<html><head><title>Sign in</title>", "HTML or XML page titled `Sign in`"),
        ('{"detail":"Not Found"}', "JSON"),
        ("\x00\x01", "binary"),
        ('a{b="c} 1\n', "line 1 is not a sample"),
        ('ok 1\na{b="c"} 1e\n', "line 2"),
        ("a 1_000\n", "line 1"),
        ("a ١\n", "line 1"),
        ('a{b="1",b="2"} 1\n', "one label twice"),
        ("a 1\na 2\n", "twice on the page"),
        ('h_bucket{le="1"} 1\n', r"\+Inf"),
        ("a{" * 1000, "line 1"),
    ],
)
def test_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        parse(text)
    assert len(caught.value.message) < 300


def test_a_page_cut_anywhere_is_refused_or_smaller(shared: Path) -> None:
    start = (shared / "metrics" / "chat_on.start.prom").read_text()
    end = (shared / "metrics" / "chat_on.end.prom").read_text()
    for cut in range(2000, 70_000, 1777):  # what follows are metrics that nothing here reads
        with pytest.raises(InputError):
            window(scrape(start), scrape(end[:cut]))


def test_a_page_of_names_without_end_is_refused_early() -> None:
    page = "".join(f"vllm:x{i}_total 1\n" for i in range(400_000))
    with pytest.raises(InputError, match="different metrics by line 10001"):
        scrape(page)


def test_a_page_of_label_sets_without_end_is_refused_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "MOST_LABEL_SETS", 1000)
    for escape in ("", "\\\\"):
        page = "".join(f'vllm:x_total{{a="{escape}{i}"}} 1\n' for i in range(2000))
        with pytest.raises(InputError, match="different sets of labels by line 999"):
            scrape(page)


@pytest.mark.parametrize(
    "labels",
    [
        'a="1",b="2"',
        'b="2",a="1"',
        'a="1",b="2",',
        'a="x,y",b="p=\\"q\\""',
        'a="{",b="} 5"',
        'a="",b="="',
        'a="é",b="#"',
    ],
)
def test_labels_read_the_same_by_either_way(labels: str) -> None:
    """The second line of a name goes the fast way, and labels with odd spacing never do."""
    spaced = labels.replace('",', '" ,')
    page = parse(f'x_total{{c="0"}} 1\nx_total{{{labels}}} 2\ny_total {{{spaced}}} 2\n')
    fast, slow = page.samples["x_total"][1], page.samples["y_total"][0]
    assert fast == slow


def test_writing_and_reading_again(shared: Path) -> None:
    page = scrape((shared / "metrics" / "chat_on.end.prom").read_text())
    again = scrape(write_exposition(page))
    assert again.samples == page.samples


def _page(value: float, *, start: float | None = None, created: float | None = None, count: float = 0) -> str:
    lines = [] if start is None else [f"process_start_time_seconds {start}"]
    lines += [f"vllm:prompt_tokens_total{L} {value}"]
    lines += [] if created is None else [f"vllm:prompt_tokens_created{L} {created}"]
    for le in ("1.0", "+Inf"):
        lines.append(
            f'vllm:time_to_first_token_seconds_bucket{{engine="0",model_name="m",le="{le}"}} {count}'
        )
    lines += [
        f"vllm:time_to_first_token_seconds_count{L} {count}",
        f"vllm:time_to_first_token_seconds_sum{L} {count}",
    ]
    return "\n".join(lines) + "\n"


def test_resets() -> None:
    name = "vllm:prompt_tokens_total"
    assert window(scrape(_page(10)), scrape(_page(15))).increase(name) == 5
    assert window(scrape(_page(10)), scrape(_page(4))).increase(name) == 4
    # A restart that overtakes the old value shows in the times only.
    assert window(scrape(_page(10, start=1)), scrape(_page(15, start=2))).increase(name) == 15
    assert window(scrape(_page(10, created=1)), scrape(_page(15, created=2))).increase(name) == 15
    # One family with the time of its creation speaks for the whole process.
    again = window(scrape(_page(10, created=1, count=5)), scrape(_page(15, created=2, count=7)))
    assert again.increase("vllm:time_to_first_token_seconds_count") == 7
    fell = window(scrape(_page(10, count=5)), scrape(_page(12, count=3)))
    histogram = fell.histogram("vllm:time_to_first_token_seconds")
    assert histogram is not None
    assert (histogram.counts, histogram.count, histogram.sum) == ((3, 3), 3, 3)
    assert fell.increase(name) == 12  # the same process, so it restarted as well


def test_two_processes_behind_one_address() -> None:
    found = window(scrape(_page(10, start=5)), scrape(_page(15, start=2)))
    assert "more than one process" in found.suspects[0]
    assert judge(meters(found)).name in ("undecided", "no_tier")


def test_engines_and_instances() -> None:
    two = 'vllm:prompt_tokens_total{engine="1",model_name="m"} 7\n'
    grown = window(scrape(_page(10)), scrape(_page(15) + two))
    assert grown.increase("vllm:prompt_tokens_total") == 12

    def fleet(a: float, b: float | None) -> str:
        pages = [("a", scrape(_page(a, start=1), time_seconds=100))]
        if b is not None:
            pages.append(("b", scrape(_page(b, start=2), time_seconds=100)))
        return write_exposition(merge(pages))

    late = window(scrape(fleet(10, None), time_seconds=100), scrape(fleet(15, 1000), time_seconds=200))
    assert late.increase("vllm:prompt_tokens_total") == 5
    assert "only in the second" in " ".join(late.notes)


@pytest.mark.parametrize(("before", "after"), [("", "http://b"), ("http://a", ""), ("http://a", "http://b")])
def test_one_server_under_two_names(before: str, after: str) -> None:
    """A page saved by hand against one of `warmset snapshot`, or another address of the same server."""

    def saved(value: float, name: str) -> str:
        page = scrape(_page(value, start=1))
        return write_exposition(merge([(name, page)]) if name else page)

    found = window(scrape(saved(10, before)), scrape(saved(15, after)))
    assert found.increase("vllm:prompt_tokens_total") == 5
    assert any("one server" in note for note in found.notes) == bool(before and after)


def test_router_copies_are_not_counted() -> None:
    router = 'vllm:prompt_tokens_total{server="http://a"} 100\n'
    assert window(None, scrape(_page(10) + router)).increase("vllm:prompt_tokens_total") == 10
    with pytest.raises(InputError, match="router"):
        window(None, scrape(router))


def test_quantile_interval() -> None:
    h = Histogram((1, 2, 4, math.inf), (10, 90, 100, 100), 200, 100)
    found = quantile(h, 0.5)
    assert found is not None
    assert (found.value, found.low, found.high) == (1.5, 1, 2)
    assert rank_interval(0.99, 150)[0] == pytest.approx(146, abs=1)
    assert quantile(Histogram((1, math.inf), (0, 0), 0, 0), 0.5) is None
    top = quantile(Histogram((1, 2, math.inf), (0, 0, 9), 90, 9), 0.5)
    assert top is not None
    assert (top.value, top.high) == (2, None)
    assert math.isnan(histogram_quantile(0.5, [(1, 5)]))


def test_different_layouts_are_added_at_shared_bounds() -> None:
    a, b = Histogram((1, 2, math.inf), (1, 2, 3), 3, 3), Histogram((2, 5, math.inf), (4, 5, 6), 9, 6)
    assert merged([a, b]) == (Histogram((2, math.inf), (6, 9), 12, 9), True)


def test_increase_of_one_sample_is_unknown() -> None:
    assert increase(track([(1, 5)]), 0, 10) is None


REAL = {
    "chat_off": "no_tier",
    "chat_on": "helping",
    "chat_small": "tier_too_small",
    "chat_slow": "hurting",
    "chat_noreuse": "no_reuse",
    "light_base": "no_tier",
    "light_tiny": "tier_too_small",
    "light_big": "helping",
}


@pytest.mark.parametrize("name", REAL)
def test_real_runs(shared: Path, name: str) -> None:
    def run(which: str) -> object:
        start, end = (
            scrape((shared / "metrics" / f"{which}.{x}.prom").read_text()) for x in ("start", "end")
        )
        return meters(window(start, end))

    m, base = run(name), run("light_base" if name.startswith("light") else "chat_off")
    for baseline in (None, of(base, {})):  # type: ignore[arg-type]
        verdict = judge(m, baseline)  # type: ignore[arg-type]
        assert verdict.name == REAL[name]
        assert any(e.metric.startswith("vllm:") for e in verdict.evidence)
        assert verdict.next_steps
    if name == "light_big":
        assert "less than their intervals" in judge(m, of(base, {})).summary  # type: ignore[arg-type]
    if name == "chat_small":
        assert judge(m, None, 100 * 524_288).reason == "capacity"  # type: ignore[arg-type]


def test_thresholds() -> None:
    assert with_settings(["min-requests=5"]).min_requests == 5
    with pytest.raises(UnknownName):
        with_settings(["min_request=5"])
    with pytest.raises(InputError, match="no number"):
        with_settings(["min_requests=many"])


def test_log() -> None:
    facts = read_log(
        [
            "INFO GPU KV cache size: 5,289,827 tokens",
            "INFO Created mmap file /dev/shm/x.mmap (12.88 GB)",
            "Reqid: cmpl-1, Total tokens 713, LMCache hit tokens: 512, need to load: -192",
            "System will operate in degraded mode (recompute)",
        ]
    )
    assert facts.device_pool_tokens == 5_289_827
    assert facts.tier_bytes == 12.88e9
    assert facts.lmcache_tokens == (713, 512, 704, 0)
    assert facts.faults == ("lmcache_init_failed",)


def test_spans() -> None:
    before, after = spans("2h..1h", "30m..now", None, now=10_000.0)
    assert before is not None
    assert (before.start_seconds, before.end_seconds) == (2800.0, 6400.0)
    assert (after.start_seconds, after.end_seconds) == (8200.0, 10_000.0)
    _, later = spans(None, None, "1970-01-01T02:00:00Z", now=10_000.0)
    assert later.start_seconds == 7200
    with pytest.raises(InputError, match="ends before"):
        spans("1h..2h", None, None, now=1e9)


def test_the_reference_states_every_threshold(root: Path) -> None:
    text = (root / "docs" / "reference" / "measure.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| ([\d.]+) \|", text, re.MULTILINE))
    assert {name: float(value) for name, value in rows.items()} == asdict(DEFAULTS)
    for verdict in NAMES:
        assert f"| `{verdict}` |" in text


def test_blocks_of_the_first_v1_counters_are_scaled_to_tokens() -> None:
    """vLLM 0.8.5 counted blocks."""
    page = (
        'vllm:gpu_prefix_cache_queries_total{engine="0",model_name="m"} 1000\n'
        'vllm:gpu_prefix_cache_hits_total{engine="0",model_name="m"} 600\n'
        'vllm:prompt_tokens_total{engine="0",model_name="m"} 16000\n'
        'vllm:cache_config_info{block_size="16",engine="0",model_name="m"} 1\n'
    )
    found = meters(window(None, scrape(page)), engine("vllm@0.8.5"))
    assert (found.device_hit_tokens, found.hit_ratio.device.value) == (9600, 0.6)  # type: ignore[union-attr]


def test_retried_lookups_do_not_inflate_hits() -> None:
    page = (
        f"vllm:prefix_cache_queries_total{L} 3000\nvllm:prefix_cache_hits_total{L} 1500\n"
        f"vllm:prompt_tokens_total{L} 1000\n"
    )
    found = meters(window(None, scrape(page)), engine("vllm@0.15"))
    assert found.device_hit_tokens == 500
    assert any("retried" in note for note in found.notes)


def test_ranks_count_once_and_bytes_add_up() -> None:
    rows = "".join(
        f'sglang:{name}{{model_name="m",tp_rank="{rank}"}} {value}\n'
        for rank in (0, 1)
        for name, value in (("load_back_tokens_total", 100), ("load_back_bytes_total", 5000))
    )
    page = rows + 'sglang:prompt_tokens_total{model_name="m"} 1000\n'
    found = meters(window(None, scrape(page)))
    assert found.load_bytes == 10_000


def test_other_traffic_forbids_comparing_latencies() -> None:
    def page(prompt: int, seconds: float) -> Meters:
        les = (100, 1000, 10_000, math.inf)
        lines = [
            f"vllm:prompt_tokens_total{L} {prompt * 100}",
            f"vllm:external_prefix_cache_hits_total{L} {prompt * 50}",
        ]
        for name, value, bounds in (
            ("request_prompt_tokens", prompt, les),
            ("time_to_first_token_seconds", seconds, (1, 5, 20, math.inf)),
        ):
            for le in bounds:
                bound = "+Inf" if le == math.inf else str(float(le))
                lines.append(
                    f'vllm:{name}_bucket{{engine="0",model_name="m",le="{bound}"}} {100 if value <= le else 0}'
                )
            lines += [f"vllm:{name}_count{L} 100", f"vllm:{name}_sum{L} {value * 100}"]
        return meters(window(None, scrape("\n".join(lines) + "\n")))

    slower = judge(page(500, 10), of(page(500, 2), {}))
    assert slower.name == "hurting"
    other = judge(page(50_000, 10), of(page(50, 2), {}))
    assert other.name != "hurting"
    assert "mean prompt" in other.traffic_changes[0]


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-5", "1e300"])
def test_strange_values_leave_no_verdict_and_no_nan(value: str) -> None:
    page = (
        f"vllm:prompt_tokens_total{L} {value}\nvllm:external_prefix_cache_hits_total{L} 5\n"
        + _page(1, count=50)[40:]
    )
    lines = [
        line
        for line in page.split("\n")
        if (line.startswith("vllm:") and not line.startswith("vllm:prompt_tokens_total{")) or value in line
    ]
    m = meters(window(None, scrape("\n".join(lines) + "\n")))
    verdict = judge(m)
    assert (verdict.name, verdict.reason) == ("undecided", "suspect_counters")
    json.dumps(payload(Measurement(m, verdict)), allow_nan=False)


def test_a_watch_slides_and_keeps_few_snapshots() -> None:
    watch = Watch(60.0, None, None, DEFAULTS)
    spans = []
    for second in range(0, 300, 2):
        page = f'vllm:prompt_tokens_total{{model_name="m"}} {1000 * second}\n'
        frame = watch.add(replace(scrape(page), time_seconds=1e9 + second))
        spans.append(frame.meters.seconds if frame else None)
        assert frame is None or frame.meters.prompt_tokens == 1000 * (frame.meters.seconds or 0)
    assert spans[:3] == [None, 2, 4]
    assert all(60 <= (s or 0) <= 66 for s in spans[40:])
    assert len(watch.snapshots) <= 14


def test_addresses() -> None:
    given = [
        "http://h:8000",
        "http://h:8000/",
        "h:8000",
        "http://h:8000/v1",
        "http://h/a/v1/",
        "https://h/own/metrics",
    ]
    assert addresses(given) == ("http://h:8000/metrics", "http://h/a/metrics", "https://h/own/metrics")


@pytest.mark.parametrize(
    "line",
    [
        "Reqid a " + "Total tokens 1 " * 600 + "hit tokens 1 " * 700,
        "GPU KV cache size: ,,, tokens",
        f"GPU KV cache size: {'9' * 400} tokens",
        "Created mmap file /dev/shm/x (1.2.3 GB)",
        f"with primary tier (cpu, {'9' * 400} chunks)",
        f"lmcache chunk_size={'9' * 400}",
    ],
)
def test_hostile_lines_of_a_log_say_nothing_and_take_no_time(line: str) -> None:
    began = time.process_time()
    assert read_log([line[:20_000]] * 20) == LogFacts()
    assert time.process_time() - began < 2
