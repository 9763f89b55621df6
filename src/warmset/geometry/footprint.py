"""The cost of a model's KV cache in one deployment: per token, per session, and as the server's pool charges it."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from warmset.errors import InputError
from warmset.geometry.charging import (
    Flight,
    dcp_share,
    full_bounded_bytes,
    request_blocks,
    session_bytes,
    steady_blocks,
)
from warmset.geometry.deployment import Deployment, whole
from warmset.geometry.grouping import Group
from warmset.geometry.page import Kind, Page

if TYPE_CHECKING:
    from warmset.geometry.geometry import Geometry

MAX_CONTEXT_TOKENS = 2**40
DEFAULT_BATCHED_TOKENS = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerGroup:
    """Layers of the whole model that cost the same. Bytes are one layer's, on one rank.

    `grows` is False for windows, chunks and states; `bytes_per_token` is None for a state, which has
    `state_bytes` per copy instead. `block_tokens` is the context that one block of one rank covers.
    """

    kind: Kind
    label: str
    layers: int
    draft_layers: int
    formula: str
    grows: bool
    bytes_per_token: Fraction | None
    page_bytes: int
    block_tokens: int
    window_tokens: int | None = None
    encoder_tokens: int | None = None
    state_bytes: int | None = None
    state_copies: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One pipeline rank; its figures hold for each of the tensor-parallel ranks in it."""

    pp_rank: int
    layers: int
    bytes_per_token: Fraction
    bounded_bytes_per_session: int
    constant_bytes_per_session: int
    pool_bytes_per_block: int
    pages: tuple[Page, ...]
    groups: tuple[Group, ...]

    def bytes_per_session(self, context_tokens: int, dcp: int) -> Fraction:
        """Unrounded bytes that a session of `context_tokens` holds here; one copy of each state."""
        total = Fraction(0)
        for page in self.pages:
            total += session_bytes(page, context_tokens, dcp)
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What the server logs for a pool: block ids, and tokens at its maximum context (`KV cache size`)."""

    blocks: int
    tokens: int
    blocks_per_request: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """KV-cache cost of a model in one deployment. Totals count all ranks of one replica, copies included.

    `tables` are the block tables of the whole model: layers that take one block id together.
    `bytes_per_token` counts the layers that grow without bound; it may be fractional.
    `bounded_bytes_per_session` are the windows when full, unrounded; `constant_bytes_per_session` is one copy
    of the recurrent state, of which the server keeps `state_copies`.
    """

    geometry: "Geometry"
    deployment: Deployment
    kv_dtype: str
    ranks: tuple[Rank, ...]
    groups: tuple[LayerGroup, ...]
    tables: tuple[Group, ...]
    notes: tuple[str, ...]

    @property
    def per_rank(self) -> Rank:
        """The heaviest rank."""
        return max(
            self.ranks,
            key=lambda r: (
                r.bytes_per_token,
                r.bounded_bytes_per_session,
                r.constant_bytes_per_session,
                -r.pp_rank,
            ),
        )

    @property
    def world(self) -> int:
        """Ranks of one replica."""
        return self.deployment.tp * self.deployment.pp

    @property
    def bytes_per_token(self) -> Fraction:
        """Bytes that each further token adds, all ranks together."""
        return self.deployment.tp * sum((rank.bytes_per_token for rank in self.ranks), Fraction(0))

    @property
    def bounded_bytes_per_session(self) -> int:
        """Bytes of all windows, chunks and encoder caches of a session when full, all ranks together."""
        return self.deployment.tp * sum(rank.bounded_bytes_per_session for rank in self.ranks)

    @property
    def constant_bytes_per_session(self) -> int:
        """Bytes of one copy of the recurrent state, all ranks together."""
        return self.deployment.tp * sum(rank.constant_bytes_per_session for rank in self.ranks)

    @property
    def state_copies(self) -> int:
        """Copies of the recurrent state that the server keeps per session; 0 without state."""
        return max((group.state_copies or 0 for group in self.groups), default=0)

    @property
    def block_tokens(self) -> int:
        """Context that one block of the growing layers covers (of the windows if none grow)."""
        growing = [table.first for table in self.tables if table.first.is_full]
        chosen = growing or [table.first for table in self.tables if table.first.kind != "state"]
        if not chosen:
            return self.deployment.block_tokens
        page = max(chosen, key=lambda p: p.block_tokens)
        return page.block_tokens * dcp_share(page, self.deployment.dcp)

    @property
    def pool_bytes_per_block(self) -> int:
        """Bytes of one block id, all ranks together."""
        return self.deployment.tp * sum(rank.pool_bytes_per_block for rank in self.ranks)

    @property
    def pool_bytes_per_token(self) -> Fraction | None:
        """Bytes that each further token costs in the pool, padding included; None if nothing grows."""
        per_token = self._growing_blocks_per_token()
        return self.pool_bytes_per_block * per_token if per_token else None

    @property
    def grows_up_to_tokens(self) -> int | None:
        """The longest window or chunk of a model in which no layer grows without bound; None for the others."""
        if self.bytes_per_token:
            return None
        return max(self.windows, default=None)

    @property
    def growth(self) -> str:
        """In words: `grows with the context`, `grows up to 4,096 tokens` or `constant`."""
        if self.bytes_per_token:
            return "grows with the context"
        bound = self.grows_up_to_tokens
        return "constant" if bound is None else f"grows up to {bound:,} tokens"

    @property
    def formula(self) -> tuple[str, ...]:
        """One line per group of layers, numbers filled in; they add up to the totals of all ranks."""
        return tuple(self.formula_of(group) for group in self.groups)

    def formula_of(self, group: LayerGroup) -> str:
        """`61 layers × 576 × 2 B × 8 ranks = 562,176 B per token`."""
        tp, total = self.deployment.tp, self.total_of(group)
        ranks = f" × {tp} ranks" if tp > 1 else ""
        layers = f"{group.layers} layer{'s' * (group.layers != 1)}"
        unit = "per session" if group.kind == "state" else "per token"
        if group.window_tokens is not None:
            unit += f", up to {group.window_tokens:,} tokens"
        if group.encoder_tokens is not None:
            unit = f"per encoder token, {group.encoder_tokens:,} of them"
        inner = f"({group.formula})" if " + " in group.formula else group.formula
        return f"{layers} × {inner}{ranks} = {exact(total)} B {unit}"

    def total_of(self, group: LayerGroup) -> Fraction:
        """Bytes of all layers of a group on all ranks: per token, or of one copy of a state."""
        each = Fraction(group.state_bytes or 0) if group.bytes_per_token is None else group.bytes_per_token
        return self.deployment.tp * group.layers * each

    @property
    def windows(self) -> dict[int, Fraction]:
        """Bytes per token, all ranks together, of the layers of each window (or chunk) length."""
        found: dict[int, Fraction] = {}
        for rank in self.ranks:
            for page in rank.pages:
                bound = page.window_tokens or page.chunk_tokens
                if bound is not None and not page.is_full:
                    found[bound] = found.get(bound, Fraction(0)) + self.deployment.tp * page.bytes_per_token
        return dict(sorted(found.items()))

    def bytes_per_session(self, context_tokens: int) -> Fraction:
        """Unrounded bytes that a session of `context_tokens` holds, all ranks together, one copy of each state.

        Raises InputError for a context past the model's maximum.
        """
        self.check_context(context_tokens)
        ranks = (rank.bytes_per_session(context_tokens, self.deployment.dcp) for rank in self.ranks)
        return self.deployment.tp * sum(ranks, Fraction(0))

    def pool_bytes_per_session(self, context_tokens: int) -> int:
        """Bytes of the whole blocks that a session holds at `context_tokens`, all copies and ranks together."""
        self.check_context(context_tokens)
        return self.pool_bytes_per_block * self.blocks_per_session(context_tokens)

    def blocks_per_session(self, context_tokens: int) -> int:
        """Block ids that a decoding session of `context_tokens` holds, over all block tables."""
        return sum(steady_blocks(group.first, context_tokens, self.deployment.dcp) for group in self.tables)

    def pool_tokens(self, kv_bytes: int, context_tokens: int, *, reserved_blocks: int) -> int:
        """Tokens that a pool of `kv_bytes` (all ranks) holds when sessions of `context_tokens` fill it.

        `reserved_blocks` are the server's own.
        """
        self.check_context(context_tokens)
        needed = self.blocks_per_session(context_tokens)
        if needed == 0:
            return 0
        return self.usable_blocks(kv_bytes, reserved_blocks) * context_tokens // needed

    def usable_blocks(self, kv_bytes: int, reserved_blocks: int) -> int:
        """Block ids for sessions in a pool of `kv_bytes` (all ranks), of which the server keeps `reserved_blocks`.

        Every rank has an equal share of the bytes; the tightest rank decides.
        """
        return max(self.pool_blocks(kv_bytes // self.world) - reserved_blocks, 0)

    def kv_bytes_for(self, blocks: int) -> int:
        """The smallest pool (all ranks) with so many block ids: what the heaviest rank needs, on every rank."""
        return blocks * self.world * max(rank.pool_bytes_per_block for rank in self.ranks)

    def pool_blocks(self, kv_bytes_per_rank: int) -> int:
        """Block ids in a pool with this many bytes on each rank."""
        return min(
            kv_bytes_per_rank // rank.pool_bytes_per_block for rank in self.ranks if rank.pool_bytes_per_block
        )

    def capacity(
        self,
        kv_bytes_per_rank: int,
        max_context_tokens: int,
        *,
        batched_tokens: int | None = None,
        concurrent_batches: int | None = None,
    ) -> Capacity:
        """What vLLM logs as `GPU KV cache size` for a pool with this many bytes on each rank.

        `batched_tokens` is `--max-num-batched-tokens` (2,048 unless the model or the server says more);
        `concurrent_batches` the batches in flight (`--pp`, one more with async scheduling). The figure is derived
        from the maximum context, not from bytes per token.
        """
        batch = batched_tokens or max(DEFAULT_BATCHED_TOKENS, self.geometry.least_batched_tokens)
        flight = Flight(batch, concurrent_batches or self.deployment.pp)
        blocks = self.pool_blocks(kv_bytes_per_rank)
        needed = sum(self.request_blocks(max_context_tokens, flight))
        return Capacity(
            blocks=blocks, tokens=int(blocks / needed * max_context_tokens), blocks_per_request=needed
        )

    def request_blocks(self, max_context_tokens: int, flight: Flight) -> tuple[int, ...]:
        """Blocks of each table that the server reserves for a request of `max_context_tokens`."""
        return tuple(
            request_blocks(table.first, max_context_tokens, flight, self.deployment.dcp)
            for table in self.tables
        )

    def check_context(self, context_tokens: int) -> None:
        """Raise InputError for a context that the model cannot have."""
        whole(context_tokens, "context", high=MAX_CONTEXT_TOKENS)
        most = self.geometry.max_context_tokens
        if most is not None and context_tokens > most:
            key = self.geometry.max_context_key or "max_position_embeddings"
            raise InputError(
                f"context `{context_tokens:,}` is past the model's maximum of {most:,} tokens (`{key}`)",
                hint="ask for a shorter context; vLLM refuses more too, unless VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 is set "
                "or `--hf-overrides` raises the maximum with a rope scaling that the model was made for",
            )

    def _growing_blocks_per_token(self) -> Fraction:
        return sum(
            (
                Fraction(1, group.first.block_tokens * dcp_share(group.first, self.deployment.dcp))
                for group in self.tables
                if group.first.is_full
            ),
            Fraction(0),
        )


def exact(value: Fraction | int) -> str:
    """A number of bytes with separators, with decimals only where it has any."""
    return f"{int(value):,}" if value == int(value) else f"{float(value):,.3f}".rstrip("0")


def rank_of(pp_rank: int, layers: int, groups: Sequence[Group], pool_bytes: int, dcp: int) -> Rank:
    """The figures of one pipeline rank from its share of the groups."""
    ordered = _in_order(groups)
    growing = sum(
        (page.bytes_per_token / dcp_share(page, dcp) for page in ordered if page.is_full), Fraction(0)
    )
    return Rank(
        pp_rank=pp_rank,
        layers=layers,
        bytes_per_token=growing,
        bounded_bytes_per_session=sum(full_bounded_bytes(page) for page in ordered),
        constant_bytes_per_session=sum(page.unpadded_bytes for page in ordered if page.kind == "state"),
        pool_bytes_per_block=pool_bytes,
        pages=ordered,
        groups=tuple(groups),
    )


def _in_order(groups: Sequence[Group]) -> tuple[Page, ...]:
    members = [(m, p) for group in groups for m, p in zip(group.members, group.pages, strict=True)]
    return tuple(page for _, page in sorted(members, key=lambda pair: pair[0]))
