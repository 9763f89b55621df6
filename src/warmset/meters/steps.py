"""What to do next after each verdict, as commands to type."""

from warmset.meters.baseline import Baseline
from warmset.meters.meters import Meters
from warmset.meters.thresholds import Thresholds
from warmset.meters.verdict import Step
from warmset.units import GIB, format_counted

__all__ = ["Step"]


def again(m: Meters) -> Step:
    """Measure once more."""
    return Step("Measure again under the same traffic.", f"warmset measure {_url(m)} --for 5m")


def baseline(m: Meters) -> list[Step]:
    """Without a tier: keep the window, decide, attach, measure."""
    return [
        Step("Keep this window as the baseline.", f"warmset measure {_url(m)} --for 5m --save before.json"),
        Step("Decide whether a tier would pay, and its size.", _plan(m)),
        Step(
            "With the tier attached, compare.", f"warmset measure {_url(m)} --for 5m --baseline before.json"
        ),
    ]


def wait(m: Meters, t: Thresholds) -> list[Step]:
    """How long to wait for enough requests, where the rate is known."""
    text = f"Wait for at least {format_counted(t.min_requests, 'request')}."
    length = "15m"
    if m.seconds and m.requests:
        needed = (t.min_requests - m.requests) * m.seconds / m.requests
        minutes = max(1, round(needed / 60 + 0.5))
        text = f"Wait for at least {format_counted(t.min_requests, 'request')}: about {minutes} min at this rate."
        length = f"{max(minutes, 1)}m"
    return [Step(text, f"warmset measure {_url(m)} --for {length}")]


def distrust(m: Meters) -> list[Step]:
    """Counters that do not belong together."""
    return [
        Step(
            "Scrape each server by its own address, not through a load balancer or router.",
            f"warmset measure --targets targets.txt --for 5m  # one address per line, such as {_url(m)}",
        ),
        Step(
            "If PROMETHEUS_MULTIPROC_DIR is set, empty that folder before each start: stale files survive restarts."
        ),
    ]


def transfers(m: Meters) -> list[Step]:
    """P/D disaggregation: the tier's own metrics tell."""
    return [
        Step(
            "Measure the tier by its own metrics, such as those of the LMCache server.",
            "warmset measure http://localhost:8080 --for 5m",
        ),
        Step("Or measure the prefill servers, whose external hits come from the tier alone."),
    ]


def missing(m: Meters) -> list[Step]:
    """Counters that this version or this configuration does not export."""
    if m.engine.server == "sglang":
        return [
            Step("Run SGLang 0.5.9 or newer with `--enable-metrics`: it splits cached tokens by tier."),
            Step(
                "Until then compare with the tier off.",
                f"warmset measure {_url(m)} --for 5m --save before.json",
            ),
        ]
    return [
        Step("vLLM exports the tier's hits from 0.11.1, and its bytes and seconds from 0.16."),
        Step(
            "For LMCache's own metrics, set the folder before the server starts.",
            "export PROMETHEUS_MULTIPROC_DIR=$(mktemp -d)",
        ),
    ]


def cost_of_a_token(m: Meters) -> list[Step]:
    """A tier whose size is known in bytes only, and with it, whether it is larger than the device pool."""
    if m.tier.bytes_per_token is not None:
        return []
    return [
        Step(
            "Say how large the tier is and what a token takes in it (`warmset footprint MODEL`): then it can be "
            "compared with the device pool.",
            f"warmset measure {_url(m)} --tier 64GiB --bytes-per-token BYTES",
        )
    ]


def attach(m: Meters) -> list[Step]:
    """A tier was asked for, and there is none."""
    return [
        Step(
            "Write the command that attaches the tier for this version.",
            _launch(m, "64GiB"),
        ),
        Step("Check the command that the server runs with now.", _check(m)),
    ]


def nothing_stored(m: Meters) -> list[Step]:
    """The store path is dead."""
    return [
        Step("Check the command and the manifest for what switches stores off.", _check(m)),
        Step(
            "Look for refused stores and failed starts of the connector.",
            "grep -iE 'offload|lmcache|connector|cannot store' server.log",
        ),
        again(m),
    ]


def never_loaded(m: Meters) -> list[Step]:
    """Matches without loads."""
    return [
        Step("Look for loads that failed.", "grep -iE 'load.*fail|fail.*load|offload' server.log"),
        Step(
            'Recompute what cannot be loaded: `"kv_load_failure_policy": "recompute"` in --kv-transfer-config (the '
            "default is `fail` since vLLM 0.17)."
        ),
        again(m),
    ]


def below_chunk(m: Meters) -> list[Step]:
    """Prompts that are too short to store."""
    return [
        Step("The tier is healthy; measure it with prompts that are longer than a chunk."),
        Step("For short prompts, use a smaller chunk (a multiple of the device's block) or no tier at all."),
    ]


def no_reuse(m: Meters) -> list[Step]:
    """Traffic that does not repeat, or repeats beyond every tier."""
    return [
        Step("See from a traffic log whether any size of tier would find reuse.", "warmset curve TRACE"),
        Step(
            "If it would not: run without a tier, or make prompts share their front (volatile text belongs at the end)."
        ),
        *_store_threshold(m),
    ]


def enlarge(m: Meters) -> list[Step]:
    """A tier that is not larger than the device pool."""
    tier = m.tier
    enough = None
    if tier.device_pool_tokens and tier.bytes_per_token:
        enough = 2 * tier.device_pool_tokens * tier.bytes_per_token / GIB
    size = f"{max(1, -(-enough // 1)):.0f}GiB" if enough else "SIZE"
    return [
        Step("Find the size that pays for your sessions.", _plan(m)),
        Step(
            "An inclusive tier must hold the whole warm set, the device's share included; try at least twice "
            "the device pool.",
            _launch(m, size),
        ),
    ]


def not_needed(m: Meters) -> list[Step]:
    """A device that suffices."""
    return [
        Step("Run without the tier, or give its memory to something else."),
        Step("Ask again when sessions grow in number or in length.", _plan(m)),
        Step("In a benchmark, make the working set larger than the device pool, or the tier cannot show."),
    ]


def thrashing(m: Meters) -> list[Step]:
    """A warm set above the tier."""
    return [
        Step(
            "See what a larger tier would find; if prompts never return, it is nothing, and no tier helps.",
            "warmset curve TRACE",
        ),
        _larger(m),
        *_store_threshold(m),
    ]


def hurting(m: Meters) -> list[Step]:
    """Loads that cost more than they spare."""
    speed = m.load_bytes / m.load_seconds if m.load_bytes and m.load_seconds else None
    text = "Switch the tier off until its loads are faster than prefill"
    needed = _break_even_speed(m)
    if speed is not None and needed is not None:
        text += f": they run at {speed / 1e6:,.0f} MB/s, and break even at about {needed / 1e6:,.0f} MB/s"
    return [
        Step(text + "."),
        Step("Find the break-even for this model and link.", _plan(m)),
        *_store_threshold(m),
    ]


def helping(m: Meters) -> list[Step]:
    """A tier that works: keep it, and keep watching it."""
    return [
        Step(
            "Keep it, and alert when this changes.",
            f"warmset export alerts --engine {_engine(m)} > warmset-alerts.yaml",
        ),
        Step("See whether more or less capacity would do better.", _plan(m)),
    ]


def helping_unproven(m: Meters, base: Baseline | None) -> list[Step]:
    """Hits without costs: a baseline would prove it."""
    if base is not None:
        return [
            Step(
                "Measure for longer: the intervals shrink with the root of the requests.",
                f"warmset measure {_url(m)} --for 30m --baseline before.json",
            )
        ]
    return [
        Step(
            "Prove it against a window with the tier off.",
            f"warmset measure {_url(m)} --for 5m --save before.json",
        ),
        *missing(m)[-1:],
    ]


def mixed(m: Meters, base: Baseline | None) -> list[Step]:
    """Evidence on both sides."""
    if base is None:
        return [
            Step(
                "Take a baseline with the tier off: it narrows the estimate.",
                f"warmset measure {_url(m)} --for 5m --save before.json",
            )
        ]
    return [
        Step(
            "Measure for longer under the same traffic.",
            f"warmset measure {_url(m)} --for 30m --baseline before.json",
        )
    ]


def _break_even_speed(m: Meters) -> float | None:
    rate, per_token = m.accounts.prefill_seconds_per_token, m.tier.bytes_per_token
    return per_token / rate if rate and per_token else None


def _store_threshold(m: Meters) -> list[Step]:
    """Storing only what was seen twice spares the writes of one-shot prompts, where the connector can."""
    if m.engine.server != "vllm" or m.tier.connector not in ("OffloadingConnector", None):
        return []
    if "store_threshold" not in m.engine.extra_config_keys("OffloadingConnector"):
        return []
    return [Step('Store only what is seen twice: `"store_threshold": 2` in kv_connector_extra_config.')]


def _plan(m: Meters) -> str:
    """What should stay warm is for the reader to say: no page tells it."""
    return f"warmset plan MODEL --gpu GPU --metrics {_url(m)} --sessions SESSIONS --context TOKENS"


def _launch(m: Meters, size: str, backend: str | None = None) -> str:
    """For the version that serves now; for the newest one where that has no tier, or is a cache's own server."""
    words = f"warmset launch MODEL --tier {size}"
    if m.engine.server == "lmcache":
        return f"{words} --backend lmcache"
    if m.engine.server == "vllm" and m.engine.connector("OffloadingConnector") is None:
        return words
    return words + (f" --backend {backend}" if backend else "") + f" --engine {_engine(m)}"


def _larger(m: Meters) -> Step:
    """A larger host tier, with a disk below it where this version has one of its own."""
    if m.engine.tier("fs") is None and m.engine.tier("fs_python") is None:
        return Step("Enlarge the tier to the warm set.", _launch(m, "SIZE"))
    return Step(
        "Enlarge the tier to the warm set, or put a disk tier below it.", _launch(m, "SIZE", "native+disk")
    )


def _check(m: Meters) -> str:
    server = "python -m sglang.launch_server" if m.engine.server == "sglang" else "vllm serve"
    return f"warmset check -- {server} …"


def _engine(m: Meters) -> str:
    return f"{m.engine.server}@{m.engine.version.major}.{m.engine.version.minor}"


def _url(m: Meters) -> str:
    first = next((i for i in m.instances if i.startswith("http")), None)
    return first or "http://localhost:8000"
