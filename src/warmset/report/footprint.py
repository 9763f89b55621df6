"""`warmset footprint`: what a model's KV cache costs, with the formula and the numbers filled in."""

from typing import Any

from warmset.geometry import Footprint, LayerGroup, Rank
from warmset.geometry.footprint import exact
from warmset.report.data import number
from warmset.report.document import Block, Bullets, Document, Facts, Line, Section, Table
from warmset.units import format_bytes, format_counted, format_tokens

SCHEMA = "warmset.footprint/1"


def payload(footprint: Footprint, context_tokens: int | None = None) -> dict[str, Any]:
    """The figures as JSON; totals count all ranks of one replica, copies included."""
    geometry, deployment = footprint.geometry, footprint.deployment
    return {
        "schema": SCHEMA,
        "model": geometry.name,
        "model_type": geometry.model_type,
        "architecture": geometry.architecture,
        "parameters": geometry.parameters,
        "max_context_tokens": geometry.max_context_tokens,
        "kv_dtype": footprint.kv_dtype,
        "model_dtype": geometry.model_dtype,
        "tp": deployment.tp,
        "pp": deployment.pp,
        "dcp": deployment.dcp,
        "platform": deployment.platform,
        "speculative_tokens": deployment.speculative_tokens,
        "hybrid_manager": deployment.hybrid_manager,
        "context_tokens": context_tokens,
        "bytes_per_token": number(footprint.bytes_per_token),
        "growth": footprint.growth,
        "grows_up_to_tokens": footprint.grows_up_to_tokens,
        "bounded_bytes_per_session": footprint.bounded_bytes_per_session,
        "constant_bytes_per_session": footprint.constant_bytes_per_session,
        "state_copies": footprint.state_copies,
        "bytes_per_session": None
        if context_tokens is None
        else number(footprint.bytes_per_session(context_tokens)),
        "pool_bytes_per_session": None
        if context_tokens is None
        else footprint.pool_bytes_per_session(context_tokens),
        "per_rank": _rank(footprint, footprint.per_rank, context_tokens),
        "ranks": [_rank(footprint, rank, context_tokens) for rank in footprint.ranks],
        "groups": [_group(footprint, group) for group in footprint.groups],
        "pool": _pool(footprint, context_tokens),
        "formula": list(footprint.formula),
        "notes": [*footprint.notes, *_remarks(footprint, context_tokens)],
    }


def document(footprint: Footprint, context_tokens: int | None = None) -> Document:
    """The same for a person: the answer, the formula to check by hand, the ranks and the pool."""
    name = footprint.geometry.name or "the model"
    sections = [
        Section("Cost", (_costs(footprint, context_tokens),)),
        Section("Formula, per group of layers", (_formulas(footprint),)),
    ]
    if footprint.deployment.pp > 1:
        sections.append(Section("Pipeline ranks", (_ranks(footprint),)))
    sections.append(Section("As the server's pool charges it", _pool_blocks(footprint, context_tokens)))
    notes = (*footprint.notes, *_remarks(footprint, context_tokens))
    if notes:
        sections.append(Section("Notes", (Bullets(notes),)))
    return Document(Line(f"{name}: {_headline(footprint)}", "strong"), tuple(sections))


def _headline(footprint: Footprint) -> str:
    parts = []
    if footprint.bytes_per_token:
        parts.append(f"{exact(footprint.bytes_per_token)} B per token")
    if footprint.bounded_bytes_per_session:
        windows = format_bytes(footprint.bounded_bytes_per_session)
        parts.append(
            f"{footprint.growth}, {windows}" if not footprint.bytes_per_token else f"windows of {windows}"
        )
    if footprint.constant_bytes_per_session:
        parts.append(f"state of {format_bytes(footprint.constant_bytes_per_session)} per session")
    ranks = "one rank" if footprint.world == 1 else f"{footprint.world} ranks together"
    auto = f" = {footprint.geometry.model_dtype}" if footprint.kv_dtype == "auto" else ""
    return f"{', '.join(parts)} (KV dtype {footprint.kv_dtype}{auto}, {ranks})"


def _costs(footprint: Footprint, context_tokens: int | None) -> Facts:
    rank, world = footprint.per_rank, footprint.world
    rows = [
        (
            "per token",
            f"{exact(footprint.bytes_per_token)} B",
            footprint.growth
            if world == 1
            else f"{footprint.growth}; {exact(rank.bytes_per_token)} B per rank",
        )
    ]
    if footprint.bounded_bytes_per_session:
        rows.append(
            (
                "windows, when full",
                f"{footprint.bounded_bytes_per_session:,} B",
                _windows(footprint) or "per session",
            )
        )
    if footprint.constant_bytes_per_session:
        copies = footprint.state_copies
        rows.append(
            (
                "recurrent state",
                f"{footprint.constant_bytes_per_session:,} B",
                f"one copy per session; the server keeps {copies}",
            )
        )
    if context_tokens is not None:
        size, pool = (
            footprint.bytes_per_session(context_tokens),
            footprint.pool_bytes_per_session(context_tokens),
        )
        rows.append((f"session of {format_tokens(context_tokens)}", format_bytes(size), f"{exact(size)} B"))
        rows.append(("  in whole blocks", format_bytes(pool), f"{pool:,} B, all copies"))
    if world > 1:
        rows.append(("ranks", f"{world}", "tensor × pipeline; the totals count copies on all of them"))
    return Facts(tuple(rows))


def _per_token(footprint: Footprint) -> str:
    """Never just 0 where windows grow up to a bound."""
    if footprint.grows_up_to_tokens is None:
        return f"{exact(footprint.bytes_per_token)} B"
    return f"{exact(sum(footprint.windows.values()))} B, then 0"


def _windows(footprint: Footprint) -> str:
    return "; ".join(
        f"{window:,} tokens × {exact(per_token)} B" for window, per_token in footprint.windows.items()
    )


def _formulas(footprint: Footprint) -> Table:
    return Table(
        ("layers", "kind", "formula", "total"),
        tuple(
            (
                f"{group.layers}" + (f" ({group.draft_layers} draft)" if group.draft_layers else ""),
                group.label + (f", {group.window_tokens:,} tokens" if group.window_tokens else ""),
                *_split(footprint.formula_of(group)),
            )
            for group in footprint.groups
        ),
        right=frozenset((0,)),
    )


def _split(formula: str) -> tuple[str, str]:
    left, _, right = formula.partition(" = ")
    return left, f"= {right}"


def _ranks(footprint: Footprint) -> Table:
    return Table(
        ("rank", "layers", "bytes per token", "windows", "state", "bytes per block"),
        tuple(
            (
                f"{rank.pp_rank}",
                f"{rank.layers}",
                exact(rank.bytes_per_token),
                f"{rank.bounded_bytes_per_session:,}",
                f"{rank.constant_bytes_per_session:,}",
                f"{rank.pool_bytes_per_block:,}",
            )
            for rank in footprint.ranks
        ),
        right=frozenset(range(6)),
    )


def _pool_blocks(footprint: Footprint, context_tokens: int | None) -> tuple[Block, ...]:
    rows = [
        (
            "one block",
            format_bytes(footprint.pool_bytes_per_block),
            f"{footprint.pool_bytes_per_block:,} B; it covers {format_tokens(footprint.block_tokens)} of context",
        )
    ]
    if context_tokens is not None:
        rows.append(
            ("a session takes", format_counted(footprint.blocks_per_session(context_tokens), "block"), "")
        )
    states = any(table.first.kind == "state" for table in footprint.tables)
    table = Table(
        ("group of layers", "layers", "tokens per block", *(("copies",) if states else ())),
        tuple(
            (
                table.first.kind.replace("_", " "),
                f"{len(table.members)}",
                f"{table.first.block_tokens:,}",
                *((f"{table.first.copies}" if table.first.kind == "state" else "",) if states else ()),
            )
            for table in footprint.tables
        ),
        right=frozenset((1, 2, 3)),
    )
    return (Facts(tuple(rows)), table)


def _remarks(footprint: Footprint, context_tokens: int | None) -> list[str]:
    remarks = []
    if context_tokens is None:
        remarks.append(
            "what a session costs needs a context: add `--context 8192` (bytes_per_session, pool_bytes_per_session)"
        )
    if footprint.grows_up_to_tokens is not None:
        remarks.append(
            f"no layer grows without bound: every attention layer {footprint.growth}, so bytes_per_token is 0"
        )
    if footprint.geometry.name is None:
        remarks.append("explicit numbers: every layer is taken as full attention, and `auto` as 16 bits")
    return remarks


def _rank(footprint: Footprint, rank: Rank, context_tokens: int | None) -> dict[str, Any]:
    session = None
    if context_tokens is not None:
        session = number(rank.bytes_per_session(context_tokens, footprint.deployment.dcp))
    return {
        "pp_rank": rank.pp_rank,
        "layers": rank.layers,
        "bytes_per_token": number(rank.bytes_per_token),
        "bounded_bytes_per_session": rank.bounded_bytes_per_session,
        "constant_bytes_per_session": rank.constant_bytes_per_session,
        "bytes_per_session": session,
        "pool_bytes_per_block": rank.pool_bytes_per_block,
    }


def _group(footprint: Footprint, group: LayerGroup) -> dict[str, Any]:
    return {
        "kind": group.kind,
        "label": group.label,
        "layers": group.layers,
        "draft_layers": group.draft_layers,
        "grows": group.grows,
        "formula": footprint.formula_of(group),
        "bytes_per_token_per_layer": number(group.bytes_per_token),
        "bytes_per_token": None if group.bytes_per_token is None else number(footprint.total_of(group)),
        "window_tokens": group.window_tokens,
        "encoder_tokens": group.encoder_tokens,
        "state_bytes_per_layer": group.state_bytes,
        "state_bytes": None if group.state_bytes is None else number(footprint.total_of(group)),
        "state_copies": group.state_copies,
        "block_tokens": group.block_tokens,
        "page_bytes": group.page_bytes,
    }


def _pool(footprint: Footprint, context_tokens: int | None) -> dict[str, Any]:
    return {
        "block_tokens": footprint.block_tokens,
        "bytes_per_block": footprint.pool_bytes_per_block,
        "bytes_per_token": number(footprint.pool_bytes_per_token),
        "blocks_per_session": None
        if context_tokens is None
        else footprint.blocks_per_session(context_tokens),
        "tables": [
            {
                "kind": table.first.kind,
                "layers": len(table.members),
                "block_tokens": table.first.block_tokens,
                "page_bytes": table.first.bytes,
                "window_tokens": table.first.window_tokens
                if table.first.is_window
                else table.first.chunk_tokens,
                "state_copies": table.first.copies if table.first.kind == "state" else None,
            }
            for table in footprint.tables
        ],
    }
