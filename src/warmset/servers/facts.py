"""What is known about one name in one version of a server: one frozen record per kind of name."""

from dataclasses import dataclass
from typing import Literal

from warmset.servers.version import Version

Kind = Literal["flag", "connector", "config_field", "extra_key", "env", "rule", "metric"]


@dataclass(frozen=True, slots=True)
class FlagFact:
    """A command-line flag.

    `scope` says what it acts on: `kv`, `kv_cache`, `weights`, `parallel`, `memory`, `metrics`, `offload_server`
    or `other`. `unit` is empty for a flag without one. `default` is None where the server decides or it is not known.
    """

    name: str
    since: Version
    until: Version
    scope: str
    unit: str
    default: str | None
    values: tuple[str, ...]
    replaced_by: str | None
    meaning: str
    source: str


@dataclass(frozen=True, slots=True)
class ConnectorFact:
    """A KV connector, an offloading spec, or a kind of lower tier (`kind`).

    `platforms` lists where it runs (empty: not restricted, or not known); `hybrid` whether it works with the
    hybrid KV-cache manager (None: does not apply).
    """

    name: str
    kind: str
    since: Version
    until: Version
    platforms: tuple[str, ...]
    hybrid: bool | None
    replaced_by: str | None
    needs: str
    meaning: str
    source: str


@dataclass(frozen=True, slots=True)
class FieldFact:
    """A field of one of the server's config objects, such as `KVTransferConfig`."""

    config: str
    name: str
    since: Version
    until: Version
    default: str | None
    replaced_by: str | None
    meaning: str
    source: str


@dataclass(frozen=True, slots=True)
class KeyFact:
    """A key of `kv_connector_extra_config`, or of a lower tier's own table (`tier` not empty)."""

    connector: str
    spec: str
    tier: str
    name: str
    since: Version
    until: Version
    required: bool
    unit: str
    default: str | None
    replaced_by: str | None
    meaning: str
    source: str


@dataclass(frozen=True, slots=True)
class EnvFact:
    """An environment variable that the server reads."""

    name: str
    since: Version
    until: Version
    unit: str
    default: str | None
    replaced_by: str | None
    meaning: str
    source: str


@dataclass(frozen=True, slots=True)
class RuleFact:
    """A default value or a rule of behaviour, under warmset's own stable key."""

    key: str
    since: Version
    until: Version
    value: object
    unit: str
    meaning: str
    source: str


@dataclass(frozen=True, slots=True)
class MetricFact:
    """A metric as it stands on /metrics (histograms without `_bucket`, `_sum`, `_count`).

    `role` is warmset's own stable word for what the metric measures; empty for metrics that nothing here reads.
    `shown` is False where the server exposes it only on request. `note` warns of what misleads in that version.
    """

    role: str
    name: str
    since: Version
    until: Version
    type: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    unit: str
    shown: bool
    replaced_by: str | None
    meaning: str
    note: str
    source: str


Fact = FlagFact | ConnectorFact | FieldFact | KeyFact | EnvFact | RuleFact | MetricFact


@dataclass(frozen=True, slots=True)
class Removal:
    """A name that existed once and is gone in the version asked about."""

    name: str
    kind: Kind
    last: Version
    replaced_by: str | None
    meaning: str
