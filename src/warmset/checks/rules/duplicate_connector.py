"""The same connector twice in a MultiConnector."""

from collections import Counter
from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule


def check(case: Case) -> Iterator[Answer]:
    """Two OffloadingConnectors register the same metrics."""
    counts = Counter(c.name for c in case.kv.connectors if c.nested)
    for name, count in counts.items():
        if count > 1 and name in ("OffloadingConnector", "SimpleCPUOffloadConnector"):
            first = next(c for c in case.kv.connectors if c.nested and c.name == name)
            yield Hit(
                f"{count} × `{name}` in one MultiConnector register the same Prometheus metrics, and the server stops",
                first.word.find(f'"{name}"'),
                fix='one OffloadingConnector with "spec_name": "TieringOffloadingSpec" and "secondary_tiers"',
            )


RULE = Rule(
    "duplicate-connector",
    "error",
    "Two offloading connectors in one MultiConnector.",
    "Both register the same metrics, and the second one fails (`Duplicated timeseries`). Host memory and a file system "
    "below it are one OffloadingConnector with TieringOffloadingSpec.",
    '{"kv_connector":"MultiConnector", … [OffloadingConnector, OffloadingConnector]}',
    '{"kv_connector":"OffloadingConnector", … {"spec_name":"TieringOffloadingSpec","secondary_tiers":[…]}}',
    "all versions",
    "llm-d-kv-cache issue 515",
    check,
)
