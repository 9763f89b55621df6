"""Reads windows from a Prometheus-compatible HTTP API.

The server computes every increase itself, so rates and quantiles are its own, resets and extrapolation included.
"""

import asyncio
import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from warmset.addresses import without_credentials
from warmset.errors import InputError
from warmset.meters.exposition import Sample
from warmset.meters.http import Access, client, fetch
from warmset.meters.matchers import Matchers
from warmset.meters.readings import RANKS
from warmset.meters.snapshot import PREFIXES
from warmset.meters.window import Window, without_strange
from warmset.servers import SERVERS, engine, inspected
from warmset.units import parse_duration

if TYPE_CHECKING:
    import httpx

# Series of the same kind are added by the server over these: what tells processes apart, not what they count.
_WHO = "instance, pod, job, node, namespace, container, endpoint, service, prometheus"
_DEFAULT_AFTER = "30m..now"
_CONCURRENT = 8


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time in Unix seconds."""

    start_seconds: float
    end_seconds: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end_seconds - self.start_seconds


def windows(
    url: str,
    how: Access,
    matchers: Matchers,
    before: str | None,
    after: str | None,
    changed_at: str | None,
) -> tuple[Window | None, Window]:
    """(baseline's window or None, window to judge) from the API at `url`.

    Raises InputError for ranges that cannot be read, an API that does not answer, and ranges without data.
    """
    earlier, later = spans(before, after, changed_at, now=time.time())
    return asyncio.run(_windows(url.rstrip("/"), how, matchers, earlier, later))


def spans(
    before: str | None, after: str | None, changed_at: str | None, *, now: float
) -> tuple[Span | None, Span]:
    """The two stretches: `2h..1h` counts back from now, times may also be ISO 8601 or Unix seconds.

    Around a change, both stretches are as long as the time since it, and no longer than an hour.
    """
    if changed_at is not None:
        if before or after:
            raise InputError(
                "`--changed-at` already names both windows", hint="give it, or `--before` and `--after`"
            )
        moment = _moment(changed_at, now)
        length = min(3600.0, now - moment)
        if length < 60:
            raise InputError(
                f"the change at `{changed_at}` is less than a minute old", hint="wait for some traffic"
            )
        return Span(moment - length, moment), Span(moment, moment + length)
    return (_span(before, now) if before else None), _span(after or _DEFAULT_AFTER, now)


def _span(text: str, now: float) -> Span:
    start, separator, end = text.partition("..")
    if not separator:
        raise InputError(f"range `{text[:80]}` has no end", hint="write it like `2h..1h` or `30m..now`")
    span = Span(_moment(start, now), _moment(end, now))
    if span.seconds < 1 or span.start_seconds >= now:
        raise InputError(
            f"range `{text[:80]}` ends before it starts", hint="write it like `2h..1h` or `30m..now`"
        )
    return Span(span.start_seconds, min(span.end_seconds, now))


def _moment(text: str, now: float) -> float:
    """`now`, `2h` (ago), `2026-11-29T10:00:00Z`, or Unix seconds of this age of the world."""
    word = text.strip()
    if word in ("", "now"):
        return now
    if re.fullmatch(r"\d{9,11}(\.\d+)?", word):
        return float(word)
    try:
        parsed = datetime.fromisoformat(word)
    except ValueError:
        return now - parse_duration(word.removesuffix(" ago"), what="time")
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


async def _windows(
    url: str, how: Access, matchers: Matchers, earlier: Span | None, later: Span
) -> tuple[Window | None, Window]:
    async with client(how) as session:
        api = Api(session, url, how, "{" + ",".join(map(str, matchers)) + "}", asyncio.Semaphore(_CONCURRENT))
        now = await api.window(later)
        return (await api.window(earlier) if earlier else None), now


@dataclass(frozen=True, slots=True)
class Api:
    """One Prometheus-compatible API."""

    session: "httpx.AsyncClient"
    url: str
    how: Access
    selector: str
    gate: asyncio.Semaphore

    async def window(self, span: Span) -> Window:
        """Everything that the meters read, over one stretch of time."""
        names = await self._names(span)
        if not names:
            raise InputError(
                f"`{without_credentials(self.url)}` has no metrics of vLLM, SGLang or LMCache in this range",
                hint="check `--match` and the range; `--match job=NAME` must name the engines' scrape job",
            )
        growing = [name for name in names if _growing(name)]
        length = f"{round(span.seconds)}s"
        jobs = [self._vector(self._increase(name, length), span.end_seconds) for name in growing]
        jobs += [
            self._vector(self._ends(name), span.end_seconds) for name in names if not name.endswith("_bucket")
        ]
        layouts = [name for name in growing if name.endswith("_bucket")]
        jobs += [self._vector(f"count by (le) ({name}{self.selector})", span.end_seconds) for name in layouts]
        answers = await asyncio.gather(*jobs)
        increases = dict(zip(growing, answers, strict=False))
        rest = [name for name in names if not name.endswith("_bucket")]
        ends = dict(zip(rest, answers[len(growing) :], strict=False))
        notes = []
        for name, counts in zip(layouts, answers[len(growing) + len(rest) :], strict=True):
            kept = _shared_bounds(counts)
            if kept is not None:
                increases[name] = [row for row in increases[name] if dict(row.labels).get("le") in kept]
                notes.append(
                    f"{name}: servers have different buckets; only the bounds that all share are used"
                )
        instances = await self._vector(f"count by (instance) ({names[0]}{self.selector})", span.end_seconds)
        if not any(increases.values()):
            raise InputError(
                f"`{without_credentials(self.url)}` has fewer than two samples per series in this range",
                hint="take a longer range: it needs at least twice the scrape interval",
            )
        usable, strange = without_strange(increases)
        return Window(
            usable,
            without_strange(ends)[0],
            span.seconds,
            instances=tuple(sorted(dict(row.labels).get("instance", "") for row in instances)),
            notes=tuple(notes),
            suspects=strange,
        )

    async def _names(self, span: Span) -> list[str]:
        match = self.selector[1:-1]
        pattern = "(vllm|sglang|lmcache|lmcache_mp)[:_].+"
        params = {
            "match[]": f'{{__name__=~"{pattern}"{"," + match if match else ""}}}',
            "start": f"{span.start_seconds:.3f}",
            "end": f"{span.end_seconds:.3f}",
        }
        found = await self._get("/api/v1/label/__name__/values", params)
        if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
            raise self._no_api(found)
        known = known_names()
        return sorted(
            n for n in found if n.startswith(PREFIXES) and not n.endswith("_created") and _family(n) in known
        )

    def _increase(self, name: str, length: str) -> str:
        inner = f"increase({name}{self.selector}[{length}])"
        if not name.endswith("_bytes_total"):
            # Ranks of one engine count the same events.
            inner = f"max without ({', '.join(RANKS)}) ({inner})"
        return f"sum without ({_WHO}) ({inner})"

    def _ends(self, name: str) -> str:
        if _growing(name):
            return f"sum without ({_WHO}) (max without ({', '.join(RANKS)}) ({name}{self.selector}))"
        return f"{name}{self.selector}"

    async def _vector(self, query: str, at: float) -> list[Sample]:
        data = await self._get("/api/v1/query", {"query": query, "time": f"{at:.3f}"})
        rows = []
        try:
            for item in data["result"]:
                labels = tuple(sorted((k, str(v)) for k, v in item["metric"].items() if k != "__name__"))
                rows.append(Sample(labels, float(item["value"][1])))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            raise self._no_api(data) from None
        return rows

    def _no_api(self, answer: object) -> InputError:
        return InputError(
            f"`{without_credentials(self.url)}` is no Prometheus API: it answered `{str(answer)[:60].strip()}`",
            hint="give the address that Grafana uses, such as `http://prometheus:9090`, and a token if needed",
        )

    async def _get(self, path: str, params: dict[str, str]) -> Any:
        async with self.gate:
            text = await fetch(self.session, self.url + path, self.how, params, any_status=True)
        try:
            answer = json.loads(text)
            status, data = answer["status"], answer.get("data")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise self._no_api(text) from None
        if status != "success":
            raise InputError(
                f"`{without_credentials(self.url)}` refused a query: {str(answer.get('error'))[:200]}",
                hint="check `--match`",
            )
        return data


@cache
def known_names() -> frozenset[str]:
    """Families with a role in any version, and the few others that a tier is told by."""
    names = set()
    for server in SERVERS:
        for version in inspected(server):
            metrics = engine(f"{server}@{version}").metrics()
            names |= {m.name for m in metrics if m.role or ":nixl_" in m.name}
    return frozenset({*names, "vllm:spec_decode_num_draft_tokens_total", "sglang:max_total_num_tokens"})


def _growing(name: str) -> bool:
    return name.endswith(("_total", "_bucket", "_count", "_sum"))


def _family(name: str) -> str:
    for suffix in ("_bucket", "_count", "_sum"):
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name


def _shared_bounds(counts: Sequence[Sample]) -> set[str] | None:
    """The `le` texts that every series has; None where all have the same."""
    seen = {dict(row.labels).get("le", ""): row.value for row in counts}
    if len(set(seen.values())) <= 1:
        return None
    most = max(seen.values())
    return {le for le, count in seen.items() if count == most}
