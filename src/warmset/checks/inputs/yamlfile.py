"""YAML and JSON files: decides what each document is and hands it to the reader of that kind."""

import re

from warmset.checks.inputs.compose import compose_launches
from warmset.checks.inputs.helm import chart_launches, runtime_launches
from warmset.checks.inputs.kserve import kserve_launches
from warmset.checks.inputs.kubernetes import config_map, patch_launches, pod_launches
from warmset.checks.inputs.parsed import Parsed
from warmset.checks.inputs.settings import (
    LMCACHE_KEYS,
    LMCACHE_OLD_KEYS,
    MOONCAKE_KEYS,
    config_launch,
    looks_like_vllm_config,
    operator_launches,
)
from warmset.checks.text import Source
from warmset.checks.tree import Node, documents
from warmset.errors import InputError

# Names of these servers have a colon, and so have the series that are recorded from them.
_METRIC = re.compile(r"(vllm|sglang|lmcache)\w*:|:\w*(vllm|sglang|lmcache)")


def read_yaml(source: Source) -> Parsed:
    """Read every document of a YAML or JSON file."""
    parsed = Parsed(source, "yaml")
    read_documents(parsed, documents(source))
    return parsed


def read_documents(parsed: Parsed, roots: list[Node]) -> None:
    """Add to `parsed` what the documents hold."""
    for root in roots:
        _read(parsed, root)


def _read(parsed: Parsed, root: Node) -> None:
    if root.kind == "seq":
        parsed.kind = "patch"
        parsed.launches += patch_launches(root)
        return
    if root.kind != "map":
        return
    keys = root.keys()
    kind = root.scalar("kind")
    if kind == "ConfigMap":
        _config_map(parsed, root)
    elif kind == "List" and (items := root.get("items")) is not None and items.kind == "seq":
        read_documents(parsed, items.items)
    elif kind == "Kustomization" or "patches" in keys or "patchesStrategicMerge" in keys:
        _kustomization(parsed, root)
    elif kind == "VLLMRuntime":
        parsed.kind = "kubernetes"
        parsed.launches += runtime_launches(root)
    elif kind in ("LLMInferenceService", "LLMInferenceServiceConfig"):
        parsed.kind = "kubernetes"
        parsed.launches += kserve_launches(root)
    elif kind == "RayService" and (serve := root.get("spec", "serveConfigV2")) is not None:
        parsed.kind = "kubernetes"
        if serve.kind == "scalar":
            read_documents(parsed, documents(parsed.source, serve.text))
    elif kind is not None and "apiVersion" in keys:
        parsed.kind = "kubernetes"
        parsed.launches += pod_launches(root)
    elif "services" in keys and (services := root.get("services")) is not None and services.kind == "map":
        parsed.kind = "compose"
        parsed.launches += compose_launches(root)
    elif "servingEngineSpec" in keys or "cacheserverSpec" in keys:
        parsed.kind = "helm"
        servers, cache = chart_launches(root)
        parsed.launches += servers
        parsed.cache_servers += cache
    elif keys & MOONCAKE_KEYS:
        parsed.kind = "mooncake"
        parsed.mooncake.append(root)
    elif keys & (LMCACHE_KEYS | LMCACHE_OLD_KEYS) and not looks_like_vllm_config(root):
        parsed.kind = "lmcache"
        parsed.lmcache.append(root)
    elif looks_like_vllm_config(root):
        parsed.kind = "vllm-config"
        parsed.launches.append(config_launch(root))
    else:
        parsed.launches += pod_launches(root)
    parsed.launches += operator_launches(root)
    _queries(parsed, root)


def _config_map(parsed: Parsed, root: Node) -> None:
    name = root.scalar("metadata", "name") or ""
    values, files = config_map(root)
    parsed.config_maps[name] = values
    for text in files:
        try:
            read_documents(parsed, documents(parsed.source, text))
        except InputError:
            continue


def _kustomization(parsed: Parsed, root: Node) -> None:
    """Inline patches are read; files that a kustomization names are read only if they are given too."""
    parsed.kind = "kustomize"
    for name in ("patches", "patchesStrategicMerge", "patchesJson6902"):
        listed = root.get(name)
        for item in listed.items if listed is not None else ():
            patch = item.get("patch") if item.kind == "map" else item
            if patch is not None and patch.kind == "scalar" and "\n" in patch.value:
                read_documents(parsed, documents(parsed.source, patch.text))
            elif item.kind == "map" and item.get("path") is not None:
                parsed.notes.append(f"`{item.scalar('path')}` is read only if it is given too")


def _queries(parsed: Parsed, root: Node) -> None:
    """PromQL in rule files and dashboards."""
    if not root.keys() & {"groups", "spec", "panels", "dashboard", "data"}:
        return
    for _, node in root.walk():
        for key, value in node.pairs:
            if key.value in ("expr", "query") and value.kind == "scalar" and _METRIC.search(value.value):
                parsed.queries.append(value.word)
