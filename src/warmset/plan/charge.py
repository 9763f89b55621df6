"""What a backend stores for a warm set: rows and chunks, copies per rank, what is left out, what is padded."""

from dataclasses import dataclass
from fractions import Fraction

from warmset.errors import Unsupported
from warmset.geometry import Footprint
from warmset.plan.record import Inclusion
from warmset.plan.rows import keeps_every_window_block, session_rows
from warmset.servers import Engine, Version
from warmset.units import format_bytes

NATIVE = ("native", "native+disk", "native+object", "native+warmset")
_ONE_TENSOR_SINCE = Version(0, 14)


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """How one backend accounts for KV cache on one replica, all ranks together.

    `session_bytes` is what it stores for one session of the demanded context, `growth_bytes` of it for each token
    that sessions can share; `chunk_bytes` is its unit of allocation, which covers `chunk_tokens` of context.
    `regions` × ranks are the separate host allocations, and `pools` how often the server takes the size that it is
    given.
    `copies_ratio` is copies stored per copy on the devices (1 / tp where all ranks share one copy).
    """

    inclusion: Inclusion
    why: str
    session_bytes: Fraction
    growth_bytes: Fraction
    chunk_bytes: int
    chunk_tokens: int
    regions: int
    copies_ratio: Fraction
    pools: int = 1
    conversions: tuple[str, ...]

    @property
    def is_inclusive(self) -> bool:
        """Whether the tier also holds what the device holds."""
        return self.inclusion == "inclusive"

    def further_bytes(self, shared_tokens: int) -> Fraction:
        """What one more session takes that begins with the same `shared_tokens`: only whole chunks are kept once."""
        whole = shared_tokens // self.chunk_tokens * self.chunk_tokens
        return max(Fraction(0), self.session_bytes - whole * self.growth_bytes)

    def stored_bytes(self, sessions: int, shared_tokens: int) -> Fraction:
        """What `sessions` take that all begin with the same `shared_tokens`."""
        return self.session_bytes + (sessions - 1) * self.further_bytes(shared_tokens)


def charge(
    footprint: Footprint, context_tokens: int, server: Engine, backend: str, lmcache: Engine | None
) -> Charge:
    """The charge of `backend` for sessions of `context_tokens`.

    Raises Unsupported for a backend that the server version does not have.
    """
    if backend in NATIVE:
        return _native(footprint, context_tokens, server)
    if backend == "hicache":
        return _hicache(footprint, context_tokens, server)
    assert lmcache is not None
    return _lmcache(footprint, context_tokens, server, lmcache, backend)


def _native(footprint: Footprint, context_tokens: int, server: Engine) -> Charge:
    if server.connector("OffloadingConnector") is None:
        raise Unsupported(
            f"`{server}` has no native KV offloading",
            hint="it came with vLLM 0.11.0: use `--engine vllm@0.14` or newer, or `--backend lmcache-inprocess`",
        )
    copies, conversions = Fraction(1), []
    if all_replicated(footprint) and footprint.deployment.tp > 1:
        single = (
            server.default("mla_single_copy") and footprint.deployment.pp == footprint.deployment.dcp == 1
        )
        if single:
            copies = Fraction(1, footprint.deployment.tp)
            conversions.append(
                f"every rank caches the same latents, and {server} keeps one copy of the {footprint.deployment.tp} "
                "(one node, TP only)"
            )
        else:
            conversions.append(
                f"every rank caches the same latents, and {server} stores all {footprint.world} copies"
                + (
                    ""
                    if server.default("mla_single_copy")
                    else "; one copy is kept since vLLM 0.27 (TP only)"
                )
            )
    align = int(server.default("chunk_alignment_bytes") or 1)
    row = footprint.pool_bytes_per_block * copies
    row_bytes = -(-int(row) // align) * align
    if row_bytes > row:
        conversions.append(
            f"each chunk of {int(row):,} B is rounded up to {row_bytes:,} B (whole memory pages)"
        )
    rows = session_rows(footprint, context_tokens, server)
    content = footprint.bytes_per_session(context_tokens) * copies
    stored = Fraction(rows * row_bytes)
    if stored > content * Fraction(101, 100):
        conversions.append(
            f"a session's content is {format_bytes(content)}, but it takes up to {rows:,} rows or "
            f"{format_bytes(stored)} of the tier: {_groups(footprint)} {_stored(footprint, server)}, in rows as "
            "wide as the widest group"
        )
    rule = server.rule("native_tier_inclusion")
    return Charge(
        inclusion="inclusive",
        why=(rule.meaning if rule is not None else "")
        or "blocks are stored when computed, so the tier also holds what the device holds",
        session_bytes=max(content, stored, footprint.pool_bytes_per_session(context_tokens) * copies),
        growth_bytes=(footprint.pool_bytes_per_token or Fraction(0)) * copies * row_bytes / row,
        chunk_bytes=row_bytes,
        chunk_tokens=footprint.block_tokens,
        regions=regions(footprint, server),
        copies_ratio=copies,
        conversions=tuple(conversions),
    )


def _lmcache(
    footprint: Footprint, context_tokens: int, server: Engine, lmcache: Engine, backend: str
) -> Charge:
    chunk_tokens = int(lmcache.default("chunk_size_tokens") or 256)
    # LMCache hashes whole blocks: where these are larger, its chunk must be a multiple of them.
    chunk_tokens = -(-chunk_tokens // footprint.block_tokens) * footprint.block_tokens
    copies, conversions = Fraction(1), [f"LMCache stores whole chunks of {chunk_tokens} tokens"]
    if (
        all_replicated(footprint)
        and footprint.deployment.tp > 1
        and lmcache.default("first_rank_only_for_mla")
    ):
        copies = Fraction(1, footprint.deployment.tp)
        conversions.append(
            "every rank caches the same latents, and LMCache stores the first rank's copy alone"
        )
    per_token = footprint.pool_bytes_per_token or Fraction(0)
    content = footprint.bytes_per_session(context_tokens) * copies
    rule = lmcache.rule("tier_inclusion")
    where = "in the server process" if backend == "lmcache-inprocess" else "in the LMCache server"
    return Charge(
        inclusion="inclusive",
        why=f"LMCache keeps its chunks {where}: "
        + ((rule.meaning if rule is not None else "") or "chunks are stored when computed")
        + ", so the tier also holds what the device holds",
        session_bytes=max(content, footprint.pool_bytes_per_session(context_tokens) * copies),
        growth_bytes=per_token * copies,
        chunk_bytes=max(1, int(per_token * chunk_tokens * copies)),
        chunk_tokens=chunk_tokens,
        regions=1,
        copies_ratio=copies,
        conversions=tuple(conversions),
    )


def _hicache(footprint: Footprint, context_tokens: int, server: Engine) -> Charge:
    conversions = []
    if all_replicated(footprint) and footprint.deployment.tp > 1:
        conversions.append(
            f"every rank caches the same latents, and HiCache stores all {footprint.world} copies"
        )
    doubled = pools(footprint, server)
    if doubled > 1:
        conversions.append(
            f"this model has two kinds of cache, and {server} takes the whole size for each: twice the host memory"
        )
    policy = server.default("hicache_write_policy")
    return Charge(
        inclusion="inclusive",
        why=f"HiCache's default `{policy}` copies pages of the device pool to the host pool while they stay on the "
        "device, and refuses a host pool that is not larger than the device pool",
        session_bytes=max(
            footprint.bytes_per_session(context_tokens),
            Fraction(footprint.pool_bytes_per_session(context_tokens)),
        ),
        growth_bytes=footprint.pool_bytes_per_token or Fraction(0),
        chunk_bytes=max(1, int(footprint.pool_bytes_per_token or 0)),
        chunk_tokens=1,
        regions=1,
        copies_ratio=Fraction(1),
        pools=doubled,
        conversions=tuple(conversions),
    )


def regions(footprint: Footprint, server: Engine) -> int:
    """Separate host tensors of one rank: one where all layers have one table, else one per layer of a group."""
    if server.version < _ONE_TENSOR_SINCE:
        return max(rank.layers for rank in footprint.ranks)
    return 1 if len(footprint.tables) == 1 else max(len(table.members) for table in footprint.tables)


def pools(footprint: Footprint, server: Engine) -> int:
    """How often SGLang takes the size that it is given: once for each kind of cache, in versions that do so."""
    return 2 if len(footprint.tables) > 1 and server.default("hicache_size_of_each_pool") else 1


def all_replicated(footprint: Footprint) -> bool:
    """Whether every rank caches the same bytes: latents alone."""
    pages = [page for table in footprint.tables for page in table.pages]
    return bool(pages) and all(page.kind in ("latent", "window_latent") for page in pages)


def _groups(footprint: Footprint) -> str:
    count = len(footprint.tables)
    return f"its {count} groups of layers" if count > 1 else "its layers"


def _stored(footprint: Footprint, server: Engine) -> str:
    if keeps_every_window_block(footprint, server):
        return "store every block that they compute (0.30 and newer keep only the ends of windows)"
    if any(table.first.is_window or table.first.kind == "state" for table in footprint.tables):
        return "store their own blocks (of windows and states, the ends of the last two prompts)"
    return "store their own blocks"
