"""From a model's caches to its footprint: settle dtype and blocks, lay out pages, group them, split them over ranks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from warmset.errors import InputError
from warmset.geometry.blocks import settle_blocks
from warmset.geometry.cache import Cache
from warmset.geometry.charging import dcp_share
from warmset.geometry.deployment import (
    MAX_BLOCK_TOKENS,
    MAX_RANKS,
    MAX_SPECULATIVE_TOKENS,
    Deployment,
    check_dcp,
    check_tp,
    parse_platform,
    pipeline_ranges,
    whole,
)
from warmset.geometry.dtype_rules import resolve_kv_dtype, skipped_layers
from warmset.geometry.footprint import Footprint, LayerGroup, rank_of
from warmset.geometry.grouping import group_pages, pool_bytes_per_block
from warmset.geometry.page import Kind, Page

if TYPE_CHECKING:
    from warmset.geometry.geometry import Geometry

_UNKNOWN_CONTEXT_TOKENS = 2048

LABELS: dict[Kind, str] = {
    "full": "full attention",
    "latent": "latent (MLA)",
    "window": "sliding window",
    "window_latent": "sliding window, latent",
    "chunk": "chunked local attention",
    "state": "recurrent state",
    "cross": "cross attention",
}


def footprint(
    geometry: "Geometry",
    *,
    kv_dtype: str,
    tp: int,
    pp: int,
    dcp: int,
    block_size: int | None,
    platform: str,
    speculative_tokens: int,
    prefix_caching: bool,
    hybrid_manager: bool,
    max_context_tokens: int | None,
) -> Footprint:
    """See `Geometry.footprint`."""
    for value, option in ((tp, "`--tp`"), (pp, "`--pp`"), (dcp, "`--dcp`")):
        whole(value, option, high=MAX_RANKS)
    whole(speculative_tokens, "`--speculative-tokens`", low=0, high=MAX_SPECULATIVE_TOKENS)
    if block_size is not None:
        whole(block_size, "`--block-size`", high=MAX_BLOCK_TOKENS)
    where = parse_platform(platform)
    if not geometry.caches:
        raise InputError(
            f"`{geometry.name or 'the model'}` is an encoder (`model_type` {geometry.model_type}, attention in both "
            "directions): it keeps no KV cache, so there is nothing to offload",
            hint="name a model that generates text",
        )
    caches = (*geometry.caches, *(geometry.draft_caches if speculative_tokens else ()))
    check_tp(tp, geometry.attention_heads, geometry.kv_heads)
    check_dcp(dcp, tp, geometry.attention_heads, geometry.kv_heads, latent=geometry.has_latent)
    resolved = resolve_kv_dtype(geometry, kv_dtype, where)
    deployment = Deployment(
        kv_dtype=resolved.kv_dtype,
        model_dtype=geometry.model_dtype,
        ssm_dtype="float32" if where == "cpu" else geometry.state_dtype,
        tp=tp,
        pp=pp,
        dcp=dcp,
        platform=where,
        skipped_layers=skipped_layers(geometry, resolved.kv_dtype),
        speculative_tokens=speculative_tokens,
        retained_tokens=_retained_tokens(geometry, speculative_tokens),
        state_mode=_state_mode(geometry, where, prefix_caching),
        hybrid_manager=hybrid_manager,
    )
    context = max_context_tokens or geometry.max_context_tokens or _UNKNOWN_CONTEXT_TOKENS
    deployment = settle_blocks(caches, deployment, block_size, context)
    pages = [cache.page(deployment) for cache in caches]
    _check_window_dcp(pages, dcp)
    groups = group_pages(pages, block_outermost=geometry.block_outermost, hybrid_manager=hybrid_manager)
    settled = {m: page for group in groups for m, page in zip(group.members, group.pages, strict=True)}
    ranks = []
    for pp_rank, layers in enumerate(pipeline_ranges(geometry.layers, pp)):
        last = pp_rank == pp - 1
        held = frozenset(
            index
            for index, c in enumerate(caches)
            if c.layer in layers or (last and c.layer >= geometry.layers)
        )
        own = tuple(group.only(held) for group in groups)
        pool = pool_bytes_per_block(own, block_outermost=geometry.block_outermost) if held else 0
        ranks.append(rank_of(pp_rank, len(layers), own, pool, dcp))
    return Footprint(
        geometry=geometry,
        deployment=deployment,
        kv_dtype=resolved.kv_dtype,
        ranks=tuple(ranks),
        tables=groups,
        groups=_layer_groups(geometry, caches, [settled[i] for i in range(len(caches))], deployment),
        notes=(*geometry.notes, *resolved.notes, *_notes(geometry, deployment, speculative_tokens)),
    )


def _state_mode(geometry: "Geometry", platform: str, prefix_caching: bool) -> Literal["align", "none"]:
    """Prefix caching keeps states aligned with blocks; models of state alone, and latents on the CPU, have none."""
    alone = geometry.has_state and not geometry.kv_heads and not geometry.has_latent
    off = not prefix_caching or alone or (platform == "cpu" and geometry.has_latent)
    return "none" if off else "align"


def _retained_tokens(geometry: "Geometry", speculative_tokens: int) -> int:
    """Tokens behind each window that several MTP modules in a row may read again."""
    return speculative_tokens - 1 if min(geometry.draft_modules, speculative_tokens) > 1 else 0


def _check_window_dcp(pages: Sequence[Page], dcp: int) -> None:
    if dcp > 1 and any(page.is_window or page.kind in ("chunk", "cross") for page in pages):
        raise InputError(
            f"`--dcp {dcp}` cannot spread sliding-window, chunked or cross-attention layers",
            hint="drop `--dcp`: vLLM refuses it for this model too",
        )


@dataclass(frozen=True, slots=True)
class _Alike:
    kind: Kind
    label: str
    formula: str
    page: Page


def _layer_groups(
    geometry: "Geometry", caches: Sequence[Cache], pages: Sequence[Page], deployment: Deployment
) -> tuple[LayerGroup, ...]:
    counts: dict[_Alike, list[int]] = {}
    for cache, page in zip(caches, pages, strict=True):
        alike = _Alike(
            page.kind, _label(page), cache.formula(deployment), replace(page, index_group_leader=False)
        )
        total = counts.setdefault(alike, [0, 0])
        total[0] += 1
        total[1] += cache.layer >= geometry.layers
    return tuple(
        _layer_group(alike, layers, drafts, deployment) for alike, (layers, drafts) in counts.items()
    )


def _layer_group(alike: _Alike, layers: int, draft_layers: int, deployment: Deployment) -> LayerGroup:
    page, share = alike.page, dcp_share(alike.page, deployment.dcp)
    state = page.kind == "state"
    per_token: Fraction | None = None if state else page.bytes_per_token / share
    return LayerGroup(
        kind=alike.kind,
        label=alike.label,
        layers=layers,
        draft_layers=draft_layers,
        formula=alike.formula + (f" ÷ {share}" if share > 1 else ""),
        grows=page.is_full,
        bytes_per_token=per_token,
        page_bytes=page.bytes,
        block_tokens=page.block_tokens * share,
        window_tokens=None if page.is_full else page.window_tokens or page.chunk_tokens,
        encoder_tokens=page.encoder_tokens or None,
        state_bytes=page.unpadded_bytes if state else None,
        state_copies=page.copies if state else None,
    )


def _label(page: Page) -> str:
    if page.indexer:
        return "index keys"
    if page.is_full and (page.window_tokens or page.chunk_tokens):
        return "window, allocated as full"
    return LABELS[page.kind]


def _notes(geometry: "Geometry", deployment: Deployment, speculative_tokens: int) -> list[str]:
    notes = []
    if speculative_tokens and not geometry.draft_caches:
        notes.append(
            "the model has no speculative (MTP) layers of its own: a draft model's KV cache is not included"
        )
    if deployment.platform == "cpu" and geometry.has_latent and not geometry.block_outermost:
        notes.append("vLLM's CPU build runs latent attention without prefix caching, in blocks of 16 tokens")
    return notes
