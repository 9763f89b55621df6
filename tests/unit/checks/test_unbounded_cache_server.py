"""The rule `unbounded-cache-server`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "unbounded-cache-server"
FIRES: list[dict[str, Any]] = [
    {"text": "lmcache_server 0.0.0.0 65432", "severity": "warning", "says": "evicts nothing"},
    {
        "text": "cacheserverSpec:\n  replicaCount: 1\n  resources: {limits: {memory: 10Gi}}\nservingEngineSpec: {}\n",
        "severity": "warning",
        "says": "10.0 GiB",
        "name": "values.yaml",
    },
]
SILENT: list[dict[str, Any]] = [
    {"text": "lmcache server --l1-size-gb 9 --eviction-policy LRU"},
    {
        "text": "cacheserverSpec: {}\nservingEngineSpec:\n  modelSpec:\n  - {name: a, modelURL: b, vllmConfig: {enablePrefixCaching: true}}\n",
        "name": "values.yaml",
    },
]


@pytest.mark.parametrize("case", FIRES)
def test_speaks(checked: Any, case: dict[str, Any]) -> None:
    found = [f for f in checked(case) if f.rule == RULE]
    assert any(
        f.severity == case["severity"]
        and case.get("says", "") in f.message
        and case.get("fix", "") in (f.fix or "")
        for f in found
    ), found


@pytest.mark.parametrize("case", SILENT)
def test_keeps_silent(checked: Any, case: dict[str, Any]) -> None:
    assert [f for f in checked(case) if f.rule == RULE] == []
