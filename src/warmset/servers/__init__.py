"""What each server version accepts and exports, as data tables with version ranges.

>>> from warmset.servers import engine
>>> engine("vllm@0.26").has_flag("--kv-offloading-size")
True
>>> engine("vllm@0.32").flag("--kv-offloading-size").unit
'GiB total per engine'
>>> engine("vllm@0.32").replaced_by("SharedStorageConnector")
'ExampleConnector'

A minor version means its newest known patch: `vllm@0.11` is 0.11.2. Versions newer than the newest known
behave like it and say so in `Engine.notes`.
"""

from warmset.servers.engine import Engine, engine
from warmset.servers.facts import (
    ConnectorFact,
    EnvFact,
    FieldFact,
    FlagFact,
    KeyFact,
    MetricFact,
    Removal,
    RuleFact,
)
from warmset.servers.tables import SERVERS, inspected
from warmset.servers.version import Version

__all__ = [
    "SERVERS",
    "ConnectorFact",
    "Engine",
    "EnvFact",
    "FieldFact",
    "FlagFact",
    "KeyFact",
    "MetricFact",
    "Removal",
    "RuleFact",
    "Version",
    "engine",
    "inspected",
]
