"""A server's log: the facts that it states, each with its line."""

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from warmset.checks.record import Flag, ServerLaunch
from warmset.checks.text import Source, Text, Word

_LOOKS_LIKE_LOG = re.compile(
    r"^(\(\w[^)]*\) )?(\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d|(INFO|WARNING|ERROR|DEBUG|CRITICAL)\b[ :]|"
    r"\[\d\d:\d\d:\d\d|Traceback \(most recent call last\)|\w*Error: )",
    re.MULTILINE,
)
_VERSION = re.compile(r"(?:vLLM API server version|LLM engine \(v|vLLM version:?)\s*v?(\d+\.\d+(?:\.\d+)?)")
_ARGS = re.compile(r"non-default args: (\{.*\})")
_POOL_TOKENS = re.compile(r"GPU KV cache size: ([\d,]+) tokens")
_POOL_BYTES = re.compile(r"Available KV cache memory: ([\d.]+) GiB")
# What a server says at its start, and what only a server or its cache says, in small letters.
_AT_START = (
    "server_args=", "serverargs(", "max_total_num_tokens", "kv cache is allocated", "lmcache config",
    "created mmap file", "starting vllm", "llm engine (v",
)  # fmt: skip
_OF_SERVER = (
    "vllm", "sglang", "lmcache", "mooncake", "nixl", "hicache", "kvbm", "enginecore", "prefix cach", "#new-token",
    "#cached-token", "#running-req", "torch.outofmemoryerror", "cuda out of memory", "host pool", "device pool",
    "host memory", "pin budget", "cpu tensors", "offloader",
)  # fmt: skip
_NAMES_SERVER = re.compile(r"(?<![a-z])kv(?![a-z])|" + "|".join(map(re.escape, _OF_SERVER)))
# What only a line of a log has, in small letters: a time, a level, a place in a traceback, how a process ended. Prose
# names servers, too.
_LOGGED = re.compile(
    r"\d\d:\d\d|\b(?:info|warn|warning|error|debug|critical|fatal)\b\s*[\]:=|(\[\d-]|^\W*(?:info|warning|error|debug)\b|"
    r"traceback|file \"|errno|(?:error|exception|warning): |killed|core dumped|aborted|^\[ *\d+\.\d+\]"
)
_VLLM_LINE = re.compile(
    # Behind whatever a container's runtime put before it.
    r"(?:\b|\x1b\[[\d;]*m)(?:info|warning|error|debug|critical)\b\S* "
    r"(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)? \[?[\w./]+\.py:\d+\]"
)
_REQUEST = re.compile(r"(?i)\breq(?:uest)?[ _]?id:? ?([\w.\-]+)(.*)")
_RANK = re.compile(r"(?:TP|rank)[ =:]?(\d+)")


# A line longer than this is no line of a server; what is beyond it is not searched.
_LONG = re.compile(r"^([^\n]{4000})([^\n]+)", re.MULTILINE)
_MOST_LINES = 500


def _cut(match: "re.Match[str]") -> str:
    """Shorten a line and keep every offset behind it."""
    return match[1] + "\n" * len(match[2])


@dataclass
class Log:
    """A log and what it states; every figure comes with the word that states it."""

    source: Source
    version: str | None = None
    pool_tokens: tuple[int, Word] | None = None
    pool_bytes_per_rank: tuple[float, Word] | None = None
    pool_ranks: int = 0
    repeated: tuple[int, Word] | None = None
    launch: ServerLaunch | None = None
    short: str = ""

    def search(self, pattern: "re.Pattern[str]") -> "tuple[re.Match[str], Word] | None":
        """The first match, with its place."""
        match = pattern.search(self.short)
        return None if match is None else (match, self.word(match.start(), match.end()))

    @cached_property
    def _small(self) -> str:
        return self.short.lower()

    @property
    def started(self) -> bool:
        """Whether it holds a part of what a server says at its start."""
        stated = (self.version, self.pool_tokens, self.pool_bytes_per_rank, self.launch)
        return any(s is not None for s in stated) or any(text in self._small for text in _AT_START)

    @property
    def of_server(self) -> bool:
        """Whether a line is one of a known server or cache."""
        return (
            self.started
            or _VLLM_LINE.search(self._small) is not None
            or any(map(_LOGGED.search, self._naming))
        )

    @property
    def _naming(self) -> Iterator[str]:
        """The lines that name a server or its cache, in small letters."""
        at = 0
        while match := _NAMES_SERVER.search(self._small, at):
            start, at = self._small.rfind("\n", 0, match.start()) + 1, self._small.find("\n", match.end())
            yield self._small[start : at if at >= 0 else None]
            if at < 0:
                return

    def word(self, start: int, end: int) -> Word:
        """A part of the log as a word."""
        return Word(self.source.text[start:end], self.source.whole(), start, end)

    def lines_with(self, rare: str, *others: str) -> "Iterator[tuple[int, str]]":
        """The first lines that hold all of these texts, with their offsets."""
        at, left = self.short.find(rare), _MOST_LINES
        while at >= 0 and left:
            start, end = self.short.rfind("\n", 0, at) + 1, self.short.find("\n", at)
            end = len(self.short) if end < 0 else end
            line = self.short[start:end]
            if all(other in line for other in others):
                yield start, line
                left -= 1
            at = self.short.find(rare, end)


def looks_like_log(text: str) -> bool:
    """Whether a text of unknown kind is a log: most of its first lines start like one."""
    head = [line for line in text[:20_000].splitlines()[:40] if line.strip()]
    return bool(head) and sum(bool(_LOOKS_LIKE_LOG.match(line)) for line in head) * 3 >= len(head)


def read_log(source: Source) -> Log:
    """Read a log."""
    log = Log(source, short=_LONG.sub(_cut, source.text))
    whole = source.whole()
    if match := _VERSION.search(log.short):
        log.version = match[1]
    if match := _POOL_TOKENS.search(log.short):
        tokens = int(match[1].replace(",", "")[:18] or 0)
        log.pool_tokens = (tokens, Word(match[0], whole, match.start(), match.end()))
    pools = list(_POOL_BYTES.finditer(log.short))
    if pools:
        smallest = min(float(m[1]) for m in pools if m[1].count(".") <= 1 and m[1] != ".")
        first = pools[0]
        log.pool_bytes_per_rank = (smallest * 2**30, Word(first[0], whole, first.start(), first.end()))
        log.pool_ranks = len(pools)
    log.repeated = _repeated(log, whole)
    if match := _ARGS.search(log.short):
        log.launch = _launch(log, match, whole)
    return log


def _repeated(log: Log, whole: Text) -> tuple[int, Word] | None:
    """The request line that comes back most often, word for word but for its time stamp."""
    seen: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], tuple[int, int]] = {}
    for match in _REQUEST.finditer(log.short):
        key = (match[1], match[2].strip()[:200])
        if not key[1]:
            continue
        seen[key] += 1
        first.setdefault(key, match.span())
        if len(seen) > 50_000:
            break
    if not seen:
        return None
    key, count = seen.most_common(1)[0]
    start, end = first[key]
    return count, Word(log.source.text[start:end], whole, start, end)


def _launch(log: Log, match: "re.Match[str]", whole: Text) -> ServerLaunch | None:
    """The command line that vLLM repeats in its log (`non-default args: {…}`), read back as flags."""
    if len(match[1]) > 20_000:
        return None
    try:
        values = ast.literal_eval(_literal(match[1]))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    if not isinstance(values, dict):
        return None
    flags: dict[str, tuple[Flag, ...]] = {}
    positionals: list[Word] = []
    for key, value in values.items():
        at = match.start(1) + max(0, match[1].find(repr(key)))
        span = (at, at + len(repr(key)))
        shown = json.dumps(value) if isinstance(value, (dict, list)) else str(value)
        held = Word(shown, whole, *span)
        if key in ("model_tag", "model"):
            positionals.append(held)
            continue
        name = "--" + str(key).replace("_", "-")
        if value is False:
            name = "--no-" + name[2:]
        flags[name] = (Flag(name, held, None if isinstance(value, bool) else held),)
    where = Word("non-default args", whole, match.start(), match.start() + 16)
    return ServerLaunch(
        "vllm",
        where,
        words=(where,),
        flags=flags,
        positionals=tuple(positionals),
        version=log.version,
        version_source="the log",
        origin="log",
        complete=False,
    )


def _literal(text: str) -> str:
    """`KVTransferConfig(kv_connector='X', …)` inside the dictionary becomes a plain dictionary."""
    text = re.sub(r"<[\w.]+: ('[^']*')>", r"\1", text)
    for _ in range(4):
        text = re.sub(
            r"\b[A-Z]\w*\(((?:[^()'\"]|'[^']*'|\"[^\"]*\")*)\)",
            lambda m: "{" + re.sub(r"(^|, )(\w+)=", r"\1'\2': ", m[1]) + "}",
            text,
        )
    return text
