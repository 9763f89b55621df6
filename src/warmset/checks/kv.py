"""How a vLLM launch attaches a KV tier: the connector in force, its keys, and how it came to be in force."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from warmset.checks.record import Flag, ServerLaunch, truthy
from warmset.checks.text import Place, Word
from warmset.servers import Engine
from warmset.units import GIB

# Connectors that move KV between engines (prefill to decode) and keep no tier of their own.
TRANSFER = frozenset(
    [
        "NixlConnector",
        "NixlPullConnector",
        "NixlPushConnector",
        "P2pNcclConnector",
        "PyNcclConnector",
        "MooncakeConnector",
        "MoRIIOConnector",
    ]
)
_MAX_JSON = 65_536


@dataclass(frozen=True, slots=True)
class Connector:
    """One connector as configured; `word` is what holds its JSON."""

    name: str
    role: str | None
    extra: dict[str, Any]
    fields: dict[str, Any]
    word: Word
    nested: bool = False

    def key(self, name: str) -> Place:
        """The place of one of its keys."""
        return self.word.find(f'"{name}"') if f'"{name}"' in self.word.body.value else self.word.find(name)

    @property
    def spec(self) -> str:
        """The offloading spec in force."""
        return str(self.extra.get("spec_name", "CPUOffloadingSpec"))

    @property
    def tiers(self) -> list[dict[str, Any]]:
        """The lower tiers that are written as tables."""
        listed = self.extra.get("secondary_tiers")
        return [t for t in listed if isinstance(t, dict)] if isinstance(listed, list) else []


@dataclass(frozen=True, slots=True)
class KV:
    """The KV tier of a launch, before and after the size flag has had its way.

    `written` is the connector of --kv-transfer-config, `connectors` what runs (children of a MultiConnector after
    it). `by_flag` tells that --kv-offloading-size decides.
    """

    word: Word | None = None
    flag: Flag | None = None
    error: str | None = None
    error_at: Place | None = None
    config: dict[str, Any] | None = None
    written: Connector | None = None
    connectors: tuple[Connector, ...] = ()
    size: Flag | None = None
    size_bytes: int | None = None
    backend: str | None = None
    by_flag: bool = False
    unknown: bool = False

    @property
    def attached(self) -> bool:
        """Whether any connector is attached, or may be by parts that are not in the input."""
        return bool(self.connectors) or self.unknown or self.error is not None

    def named(self, *names: str) -> Connector | None:
        """The first connector in force with one of these names."""
        return next((c for c in self.connectors if c.name in names), None)

    def offloading(self) -> Iterator[Connector]:
        """Connectors that keep a tier."""
        yield from (c for c in self.connectors if c.name not in TRANSFER and c.name != "MultiConnector")


@dataclass(slots=True)
class _State:
    config: dict[str, Any] | None = None
    error: str | None = None
    error_at: Place | None = None
    unknown: bool = False
    connectors: list[Connector] = field(default_factory=list)


def read_kv(launch: ServerLaunch, engine: Engine) -> KV:
    """What is attached to a vLLM launch in one version."""
    flag, size = launch.flag("--kv-transfer-config"), launch.flag("--kv-offloading-size")
    dotted = {n: f[-1] for n, f in launch.flags.items() if n.startswith("--kv-transfer-config.")}
    word = flag.value if flag is not None else None
    state = _State()
    if word is not None:
        _parse(word, state)
    elif flag is not None:
        state.error, state.error_at = "it has no value", flag.word.place
    for name, each in dotted.items():
        if each.value is not None:
            word = word or each.value
            state.config = state.config if state.config is not None else {}
            _nest(state.config, name.split(".")[1:], each.value.value)
    written = _connector(state.config, word) if state.config is not None and word is not None else None
    backend_flag = launch.flag("--kv-offloading-backend")
    backend = (
        backend_flag.value.value if backend_flag is not None and backend_flag.value is not None else None
    )
    by_flag = size is not None and engine.has_flag("--kv-offloading-size")
    size_bytes = None
    if size is not None and size.number is not None and 0 < size.number < 2**30:
        size_bytes = int(size.number * GIB)
    connectors = list(_flatten(written)) if written is not None else []
    if by_flag and size is not None:
        effective = _expanded(launch, engine, backend, size, size_bytes, state.config)
        connectors = [effective] if effective is not None else connectors
    return KV(
        word,
        flag or next(iter(dotted.values()), None),
        state.error,
        state.error_at,
        state.config,
        written,
        tuple(connectors),
        size,
        size_bytes,
        backend,
        by_flag,
        state.unknown
        or (not launch.complete and launch.origin == "shell" and not launch.has("--kv-transfer-config")),
    )


def _parse(word: Word, state: _State) -> None:
    text = word.value
    if not word.known and not text.lstrip().startswith("{"):
        state.unknown = True
        return
    if len(text) > _MAX_JSON:
        state.error, state.error_at = f"it is longer than {_MAX_JSON:,} characters", word.place
        return
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        if not word.known:
            state.unknown = True
            return
        state.error = _explain(text, error)
        body = word.body
        at = min(error.pos, max(0, len(body.value) - 1))
        if "comma" in state.error:
            # The fault is the comma, not the bracket at which the parser gave up.
            at = max(body.value.rfind(",", 0, error.pos + 1), 0)
        state.error_at = body.place(at, at + 1) if body.value else word.place
        return
    except RecursionError:
        state.error, state.error_at = "it is nested too deeply", word.place
        return
    if isinstance(value, dict):
        state.config = value
    else:
        state.error, state.error_at = "it is no JSON object", word.place


def _explain(text: str, error: json.JSONDecodeError) -> str:
    before = text[: error.pos].rstrip()
    if before.endswith(",") and text[error.pos : error.pos + 1] in ("}", "]"):
        return "a comma stands before the closing bracket"
    if before.endswith(",") or (
        text[error.pos - 1 : error.pos] == "," and text[error.pos : error.pos + 1] in "}]"
    ):
        return "a comma stands before the closing bracket"
    if text.lstrip()[:1] == "(":
        return "it is written with parentheses; JSON objects have braces"
    if "'" in text and '"' not in text:
        return "strings are in single quotes; JSON wants double quotes"
    if text.lstrip()[:1] == "{" and '"' not in text:
        return "the double quotes are missing (the shell removed them: put the JSON in single quotes)"
    if any(t in text for t in ("True", "False", "None")):
        return "Python's `True`/`False`/`None`: JSON writes true, false, null"
    if text.count("{") != text.count("}"):
        return "the braces do not match"
    return f"{error.msg.lower()} at character {error.pos + 1}"


def _nest(config: dict[str, Any], path: list[str], text: str) -> None:
    for part in path[:-1]:
        below = config.setdefault(part, {})
        if not isinstance(below, dict):
            return
        config = below
    try:
        config[path[-1]] = json.loads(text)
    except (ValueError, RecursionError):
        config[path[-1]] = text


def _connector(config: dict[str, Any], word: Word, *, nested: bool = False) -> Connector | None:
    name = config.get("kv_connector")
    if not isinstance(name, str):
        return None
    extra = config.get("kv_connector_extra_config")
    role = config.get("kv_role")
    return Connector(
        name,
        role if isinstance(role, str) else None,
        extra if isinstance(extra, dict) else {},
        config,
        word,
        nested,
    )


def _flatten(connector: Connector) -> Iterator[Connector]:
    yield connector
    children = connector.extra.get("connectors")
    if connector.name == "MultiConnector" and isinstance(children, list):
        for child in children[:64]:
            found = _connector(child, connector.word, nested=True) if isinstance(child, dict) else None
            if found is not None:
                yield found


def _expanded(
    launch: ServerLaunch,
    engine: Engine,
    backend: str | None,
    size: Flag,
    size_bytes: int | None,
    config: dict[str, Any] | None,
) -> Connector | None:
    """What --kv-offloading-size makes of the configuration, by the version's own rule."""
    kind = backend or engine.default("kv_offloading_backend")
    if kind is None:
        return None
    simple = launch.env.get("VLLM_USE_SIMPLE_KV_OFFLOAD")
    key = f"kv_offloading_size.{kind}"
    if kind == "native" and simple is not None and truthy(simple.value):
        key = "kv_offloading_size.native_simple"
    try:
        rule = engine.default(key)
    except KeyError:
        return None
    if not isinstance(rule, dict):
        return None
    given = (config or {}).get("kv_connector_extra_config")
    extra: dict[str, Any] = dict(given) if isinstance(given, dict) and kind == "native" else {}
    for name, value in rule.get("extra", {}).items():
        if size_bytes is None and isinstance(value, str):
            continue
        if value == "size":
            extra[name] = size_bytes
        elif value == "size/ranks":
            per_rank = (size_bytes or 0) / launch.ranks
            extra[name] = per_rank / GIB if name.startswith("lmcache.") else int(per_rank)
        else:
            extra[name] = value
    word = size.value or size.word
    return Connector(str(rule["kv_connector"]), "kv_both", extra, {}, word)
