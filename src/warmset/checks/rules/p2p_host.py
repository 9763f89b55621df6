"""The address of peer-to-peer tiers."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule


def check(case: Case) -> Iterator[Answer]:
    """A p2p tier without a host, in versions that bind to localhost."""
    native = case.native
    for tier in native.tiers if native is not None else ():
        if tier.get("type") != "p2p" or not case.since("0.26.0"):
            continue
        assert native is not None
        host = tier.get("host") or (
            case.launch.env["VLLM_P2P_SIDE_CHANNEL_HOST"].value
            if "VLLM_P2P_SIDE_CHANNEL_HOST" in case.launch.env
            else None
        )
        ranks = case.launch.data_parallel
        port = tier.get("port") or 5710
        ports = f"{port}..{port + ranks - 1}" if isinstance(port, int) and ranks > 1 else str(port)
        if host in (None, "localhost", "127.0.0.1"):
            yield Hit(
                (
                    f"the p2p tier binds to localhost, so other pods cannot reach it; its ports are {ports} (one for "
                    f"each data-parallel rank)"
                ),
                native.word.find('"p2p"'),
                fix='VLLM_P2P_SIDE_CHANNEL_HOST=$(POD_IP), or "host": "ADDRESS"',
            )


RULE = Rule(
    "p2p-host",
    "warning",
    "A peer-to-peer tier that peers cannot reach.",
    "In 0.25 the p2p tier bound to 0.0.0.0:7777. Since 0.26 it binds to VLLM_P2P_SIDE_CHANNEL_HOST and _PORT, "
    "localhost and "
    "5710 by default, and each data-parallel rank adds its index to the port.",
    '"secondary_tiers":[{"type":"p2p"}]',
    '"secondary_tiers":[{"type":"p2p","host":"10.0.0.7","port":5710}]',
    "vLLM 0.26 and newer",
    "vLLM PR 47636",
    check,
)
