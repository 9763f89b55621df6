"""Offloading specs that are gone or unknown."""

from collections.abc import Iterator
from difflib import get_close_matches

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule, Severity
from warmset.servers import Version

# The llm-d file-system spec is frozen at vLLM 0.22.
_FROZEN = {"SharedStorageOffloadingSpec": Version(0, 22, 99)}


def check(case: Case) -> Iterator[Answer]:
    """`spec_name` of every OffloadingConnector."""
    for connector in case.kv.connectors:
        name = connector.extra.get("spec_name")
        if connector.name != "OffloadingConnector" or not isinstance(name, str):
            continue
        frozen = _FROZEN.get(name)
        if frozen is not None:
            if case.version > frozen:
                severity: Severity = "warning" if case.assumed else "error"
                yield Hit(
                    f"`{name}` (llm-d file-system connector) is frozen at vLLM 0.22 and does not follow {case.engine}",
                    connector.key("spec_name"),
                    severity,
                    '"spec_name": "TieringOffloadingSpec", "secondary_tiers": [{"type": "fs", "root_dir": "/kv"}]',
                )
        elif (
            not connector.extra.get("spec_module_path")
            and case.engine.spec(name) is None
            and case.engine.connectors("spec")
        ):
            if name == "TieringOffloadingSpec":
                continue
            near = get_close_matches(name, [s.name for s in case.engine.connectors("spec")], n=1, cutoff=0.6)
            yield Hit(
                f"`{name[:60]}` is no offloading spec of {case.engine}; a spec of a package needs `spec_module_path`",
                connector.key("spec_name"),
                fix=f'"spec_name": "{near[0]}"' if near else None,
            )


RULE = Rule(
    "offloading-spec",
    "error",
    "An offloading spec that the version does not have.",
    "vLLM registers CPUOffloadingSpec and, since 0.22, TieringOffloadingSpec. llm-d's SharedStorageOffloadingSpec is "
    "frozen at 0.22: its methods have old signatures from then on. The fs tier of TieringOffloadingSpec replaces it.",
    '"spec_name":"SharedStorageOffloadingSpec","spec_module_path":"llmd_fs_backend.spec"   # vLLM 0.26',
    '"spec_name":"TieringOffloadingSpec","secondary_tiers":[{"type":"fs","root_dir":"/kv"}]',
    "vLLM 0.23 and newer",
    "llm-d-kv-cache PR 632",
    check,
)
