"""How a launch reads."""

from typing import Any

from warmset.launch import Launch
from warmset.report.document import Bullets, Code, Document, Facts, Line, Section, Table
from warmset.units import format_size


def next_steps(launch: Launch | None) -> list[dict[str, str]]:
    """`next_steps` as in `warmset.measure/1`; empty where nothing is started."""
    return [] if launch is None else [{"text": s.text, "command": s.command} for s in launch.next_steps]


def next_section(launch: Launch) -> Section:
    """The next steps, each in one line that can be pasted as it stands."""
    return Section("Next", (Code("\n".join(f"{s.command}  # {s.text}" for s in launch.next_steps)),))


def payload(launch: Launch) -> dict[str, Any]:
    """The launch as `warmset.launch/1`."""
    request = launch.request
    return {
        "schema": "warmset.launch/1",
        "engine": str(request.engine),
        "lmcache": str(request.lmcache) if request.lmcache else None,
        "backend": request.backend,
        "target": request.target,
        "model": request.model,
        "tier_bytes": request.tier_bytes,
        "host_memory_bytes": launch.host_memory_bytes,
        "shm_bytes": launch.shm_bytes,
        "command": launch.command,
        "argv": list(launch.argv),
        "cache_server_argv": list(launch.cache_server_argv),
        "kv_transfer_config": None if launch.transfer_config is None else dict(launch.transfer_config),
        "env": dict(launch.env),
        "files": dict(launch.files),
        "conversions": [
            {"setting": c.setting, "value": c.value, "unit": c.unit, "bytes": c.bytes, "text": c.text}
            for c in launch.conversions
        ],
        "metrics_url": launch.metrics_url,
        "next_steps": next_steps(launch),
        "notes": list(launch.notes),
    }


def document(launch: Launch) -> Document:
    """The command first, then files, sizes and notes."""
    request = launch.request
    sections = [Section("Type this", (Code(launch.command),))]
    for name, text in launch.files.items():
        sections.append(Section(f"Save as {name}", (Code(text, "yaml"),)))
    sections.append(
        Section(
            "Sizes",
            (
                Table(
                    ("setting", "value", "unit", "from"),
                    tuple((c.setting, c.value, c.unit, c.text) for c in launch.conversions),
                    frozenset({1}),
                ),
            ),
        )
    )
    sections.append(Section("On the host", (_host_memory(launch),)))
    sections.append(Section("Notes", (Bullets(launch.notes),)))
    sections.append(next_section(launch))
    return Document(
        Line(
            f"{request.served_model} on {request.engine}, {request.backend} tier of {format_size(request.tier_bytes)} "
            "per replica",
            "strong",
        ),
        tuple(sections),
    )


def _host_memory(launch: Launch) -> Facts:
    replicas = launch.request.dp
    rows = [
        (
            "memory",
            format_size(launch.host_memory_bytes),
            f"the tiers of all {replicas} replicas" if replicas > 1 else "",
        )
    ]
    if launch.shm_bytes:
        rows.append(("of it in /dev/shm", format_size(launch.shm_bytes), ""))
    return Facts(tuple(rows))
