"""What a server's own log says about the tier: sizes, connector, and signs of a tier that works no more."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from warmset.units import GB

_POOL = re.compile(r"KV cache size: (\d[\d,]{0,19}) tokens")
_REGION = re.compile(r"Created mmap file \S+ \((\d{1,9}(?:\.\d{1,9})?) GB\)")
_CONNECTOR = re.compile(r"Creating v1 connector with name: (\w+)")
_CHUNKS = re.compile(r"with primary tier \(\w+, (\d{1,15}) chunks\)")
_CHUNK = re.compile(r"chunk_size['\"]?[=:]\s*(\d{1,9})\b")
# One after the other: as one expression, a hostile line would take minutes.
_LMCACHE_REQUEST = tuple(
    map(
        re.compile,
        (
            r"Req(?:uest )?id:?\s*([\w-]+)",
            r"[Tt]otal tokens:? (\d{1,15})",
            r"hit tokens:? (\d{1,15})",
            r"need to load:? (-?\d{1,15})",
        ),
    )
)
# A line that a server writes once and that is never true of a tier at work.
_FAULTS = (
    ("lmcache_init_failed", re.compile(r"marked as init failed|degraded mode \(recompute\)")),
    ("p2p_layout_mismatch", re.compile(r"rejecting peer connect: block_len mismatch")),
    (
        "simple_offload_without_prefix_caching",
        re.compile(r"prefix caching disabled, disabling CPU offload"),
    ),
    ("stores_refused", re.compile(r"[Cc]annot store chunks")),
)
# A request that is looked up this often is not served: it goes round in the scheduler.
_LIVELOCK_LOOKUPS = 100


@dataclass(frozen=True, slots=True)
class LogFacts:
    """Facts read from a log; None or empty where it says nothing.

    `lmcache_tokens` is (looked up, matched by LMCache, held by the device, loaded) over LMCache's request
    lines. A negative "need to load" is no error: the device holds more of the prompt than LMCache's whole chunks do.
    """

    connector: str | None = None
    device_pool_tokens: float | None = None
    tier_bytes: float | None = None
    tier_chunks: float | None = None
    chunk_tokens: float | None = None
    faults: tuple[str, ...] = ()
    lmcache_tokens: tuple[int, int, int, int] | None = None


def read_log(lines: Iterable[str]) -> LogFacts:
    """Read the facts from a log's lines; later lines win, faults add up. Lines beyond 20,000 characters are cut."""
    connector: str | None = None
    pool: float | None = None
    region: float | None = None
    chunks: float | None = None
    chunk: float | None = None
    faults: dict[str, None] = {}
    lookups: Counter[str] = Counter()
    tokens = [0, 0, 0, 0]
    for raw in lines:
        line = raw[:20_000]
        if match := _POOL.search(line):
            pool = float(match[1].replace(",", ""))
        elif match := _REGION.search(line):
            region = float(match[1]) * GB
        elif match := _CONNECTOR.search(line):
            connector = match[1]
        elif match := _CHUNKS.search(line):
            chunks = float(match[1])
        elif request := _lmcache_request(line):
            total, hit, load = map(int, request[1:])
            lookups[request[0]] += 1
            for index, value in enumerate((total, hit, hit - load, max(load, 0))):
                tokens[index] += value
        elif "lmcache" in line.lower() and (match := _CHUNK.search(line)):
            chunk = float(match[1])
        for name, pattern in _FAULTS:
            if pattern.search(line):
                faults[name] = None
    if lookups and max(lookups.values()) > _LIVELOCK_LOOKUPS:
        faults["lmcache_livelock"] = None
    return LogFacts(
        connector,
        pool,
        region,
        chunks,
        chunk,
        tuple(faults),
        (tokens[0], tokens[1], tokens[2], tokens[3]) if lookups else None,
    )


def _lmcache_request(line: str) -> list[str] | None:
    """Request, tokens in all, tokens matched and tokens to load, of a line that has them in this order."""
    found, position = [], 0
    for pattern in _LMCACHE_REQUEST:
        match = pattern.search(line, position)
        if match is None:
            return None
        found.append(match[1])
        position = match.end()
    return found
