"""Kinds of lower tiers that the version does not know."""

from collections.abc import Iterator
from difflib import get_close_matches

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule, replacing


def check(case: Case) -> Iterator[Answer]:
    """`type` of every table in secondary_tiers."""
    native = case.native
    if (
        native is None
        or native.spec != "TieringOffloadingSpec"
        or case.engine.spec("TieringOffloadingSpec") is None
    ):
        return
    known = [t.name for t in case.engine.connectors("tier")]
    for tier in native.tiers:
        name = tier.get("type")
        if tier.get("module_path") or name in known:
            continue
        if not isinstance(name, str):
            yield Hit("a lower tier has no `type`", native.key("secondary_tiers"), fix='"type": "fs"')
            continue
        at = native.word.find(f'"{name}"')
        new = case.engine.replaced_by(name)
        older = case.engine.removed(name)
        versions = case.engine.versions_with("connector", name)
        if name == "fs" and "fs_python" in known:
            yield Hit(
                f"{case.engine} calls the file tier `fs_python`; `fs` came with 0.23",
                at,
                fix='"type": "fs_python"',
            )
        elif new is not None:
            last = f" after {older.last}" if older is not None else ""
            edit = replacing(native.word, f'"{name}"', f'"{new}"') if not case.assumed else None
            yield Hit(
                f"the tier `{name}` was renamed to `{new}`{last}: {case.engine} does not know the old name",
                at,
                "warning" if case.assumed else "error",
                fix=f'"type": "{new}"',
                edit=edit,
            )
        elif versions and versions[0] > case.version:
            yield Hit(
                f"the tier `{name}` came with vLLM {versions[0]}: {case.engine} does not know it",
                at,
                fix=f"vLLM {versions[0]} or newer",
            )
        else:
            near = get_close_matches(name, known, n=1, cutoff=0.5)
            yield Hit(
                f"`{name[:40]}` is no lower tier of {case.engine}",
                at,
                fix=f'"type": "{near[0]}"' if near else f"one of {', '.join(known)}",
            )


RULE = Rule(
    "tier-type",
    "error",
    "A kind of lower tier that the version does not know.",
    "The file tier was `fs_python` in vLLM 0.22 and is `fs` since 0.23; `obj` came with 0.23, `p2p` with 0.25, "
    "`kvcr` with "
    "0.30. The llm-d guide for CPU and file tiers has the name of 0.22.",
    '"secondary_tiers":[{"type":"fs_python","root_dir":"/kv"}]   # vLLM 0.26',
    '"secondary_tiers":[{"type":"fs","root_dir":"/kv"}]',
    "vLLM 0.22 and newer",
    "vLLM v1/kv_offload/tiering/factory.py; issue 44888",
    check,
)
