"""Connector names that the version does not register."""

from collections.abc import Iterator
from difflib import get_close_matches

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule, Severity, replacing
from warmset.checks.kv import Connector
from warmset.servers import Version

# A connector that was there until this version may be what an unversioned command means.
_RECENT = Version(0, 12)
# Renamed with the V1 engine; the tables know only connectors, not which one took over.
_SUCCESSORS = {"LMCacheConnector": "LMCacheConnectorV1"}


def check(case: Case) -> Iterator[Answer]:
    """Every written connector, children of a MultiConnector too."""
    if not case.vllm:
        return
    names = {c.name for c in case.engine.connectors()}
    for connector in _written(case):
        yield from _elsewhere(case, connector)
        if connector.name in names or connector.fields.get("kv_connector_module_path"):
            continue
        yield _hit(case, connector, names)


def _elsewhere(case: Case, connector: Connector) -> Iterator[Answer]:
    """The connector exists, and refuses the kind of device; an offloading spec from outside may take it."""
    fact = case.engine.connector(connector.name)
    platform = case.launch.platform
    if fact is None or not platform or not fact.platforms or platform in fact.platforms:
        return
    if connector.fields.get("kv_connector_module_path") or case.engine.spec(connector.spec) is None:
        return
    yield Hit(
        f"`{connector.name}` of {case.engine} runs on {', '.join(fact.platforms)} alone, and this launch is for "
        f"{platform}",
        connector.word if case.kv.by_flag else connector.key(connector.name),
        fix="remove the connector, or start the build for one of these devices",
        confidence="medium",
    )


def _written(case: Case) -> Iterator[Connector]:
    if case.kv.written is not None and case.kv.by_flag:
        yield case.kv.written
    else:
        yield from case.kv.connectors


def _hit(case: Case, connector: Connector, names: set[str]) -> Hit:
    name = connector.name
    successor = _SUCCESSORS.get(name) or case.engine.replaced_by(name)
    place = (
        connector.word.find(f'"{name}"')
        if f'"{name}"' in connector.word.body.value
        else connector.word.find(name)
    )
    gone = case.engine.removed(name)
    known = case.engine.versions_with("connector", name)
    # Where no version is named, the newest stands in: a connector of a recent one may well be right.
    recent = case.assumed and bool(known) and known[-1] >= _RECENT
    severity: Severity = "warning" if recent else "error"
    if successor is not None and successor in names:
        last = f" (last in {gone.last})" if gone is not None else ""
        return Hit(
            f"`{name}` is no connector of {case.engine}{last}: it was renamed to `{successor}`",
            place,
            severity,
            fix=f'"kv_connector": "{successor}"',
            edit=replacing(connector.word, f'"{name}"', f'"{successor}"'),
        )
    if gone is not None:
        hint = {"P2pNcclConnector": "NixlConnector"}.get(name)
        return Hit(
            f"`{name}` is gone: {gone.last} was the last version with it, and {case.engine} does not start",
            place,
            severity,
            fix=f'"kv_connector": "{hint}"' if hint else None,
        )
    if known:
        return Hit(
            f"`{name}` does not exist in {case.engine} yet: it came with {known[0]}",
            place,
            fix=f"vLLM {known[0]} or newer",
        )
    near = get_close_matches(name, sorted(names), n=1, cutoff=0.6)
    offer = f": did you mean `{near[0]}`?" if near else ""
    outside = " A connector of a package needs `kv_connector_module_path`." if not near else ""
    return Hit(
        f"`{name}` is no connector of {case.engine}{offer}{outside}",
        place,
        fix=f'"kv_connector": "{near[0]}"' if near else None,
        edit=replacing(connector.word, f'"{name}"', f'"{near[0]}"')
        if near and name.lower() == near[0].lower()
        else None,
    )


RULE = Rule(
    "connector-unknown",
    "error",
    "The version has no connector of that name.",
    "Connectors come, go and are renamed between versions: LMCacheConnector became LMCacheConnectorV1 with the "
    "V1 engine, "
    "SharedStorageConnector became ExampleConnector in 0.13, SimpleCPUOffloadConnector came with 0.19. A server "
    "with a "
    "name that it does not know stops with `Unsupported connector type`. A connector of another package needs "
    "`kv_connector_module_path` beside it.",
    '{"kv_connector":"LMCacheConnector","kv_role":"kv_both"}',
    '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}',
    "by version, see the connector tables",
    "vLLM kv_connector/factory.py; LMCache issues 1759, 638",
    check,
)
