"""How a model is deployed: parallelism, block size, platform; checked against the model's own shape."""

from dataclasses import dataclass
from typing import Literal

from warmset.errors import InputError, UnknownName
from warmset.units import format_counted

Platform = Literal["cuda", "cpu"]
PLATFORMS: tuple[Platform, ...] = ("cuda", "cpu")
MAX_RANKS = 4096
MAX_BLOCK_TOKENS = 1 << 20
MAX_SPECULATIVE_TOKENS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """One replica's settings; `kv_dtype` and `model_dtype` are resolved, `block_tokens` may still be the default.

    `state_mode` is vLLM's `mamba_cache_mode`: `align` with prefix caching, else `none`.
    """

    kv_dtype: str
    model_dtype: str
    ssm_dtype: str = "auto"
    tp: int = 1
    pp: int = 1
    dcp: int = 1
    platform: Platform = "cuda"
    block_tokens: int = 16
    state_block_tokens: int = 16
    state_page_bytes: int | None = None
    skipped_page_bytes: int | None = None
    skipped_layers: frozenset[int] = frozenset()
    speculative_tokens: int = 0
    retained_tokens: int = 0
    state_mode: Literal["align", "none"] = "align"
    hybrid_manager: bool = True

    def kv_dtype_of(self, layer: int) -> str:
        """The KV dtype of one decoder layer: some formats keep the first and last layers unquantized."""
        return "auto" if layer in self.skipped_layers else self.kv_dtype


def whole(value: object, what: str, *, low: int = 1, high: int) -> int:
    """`value` as an int between `low` and `high`; booleans, floats and text are refused."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(
            f"{what} `{value!r:.80}` is not a whole number", hint=f"give a number from {low} to {high:,}"
        )
    if not low <= value <= high:
        shown = f"{value:,}" if abs(value) < 10**30 else "of more than 30 digits"
        raise InputError(f"{what} `{shown}` is not between {low} and {high:,}", hint="check the value")
    return value


def parse_platform(name: str) -> Platform:
    """`cuda` or `cpu`."""
    for platform in PLATFORMS:
        if name == platform:
            return platform
    raise UnknownName("platform", name[:80], PLATFORMS, hint="use `cuda` or `cpu`")


def check_tp(tp: int, attention_heads: int | None, kv_heads: tuple[int, ...]) -> None:
    """Whether the heads can be split over `tp` ranks.

    Attention heads must divide evenly; KV heads must divide evenly or be replicated evenly (vLLM
    `ModelConfig.verify_with_parallel_config` and the attention layers).
    """
    if attention_heads is not None and attention_heads % tp:
        fits = ", ".join(str(n) for n in _powers_up_to(attention_heads) if attention_heads % n == 0)
        raise InputError(
            f"`--tp {tp}` does not divide the model's {attention_heads} attention heads (`num_attention_heads`)",
            hint=f"use a divisor of {attention_heads}, such as {fits}",
        )
    for heads in kv_heads:
        if heads % tp and tp % heads:
            raise InputError(
                f"`--tp {tp}` can neither split nor replicate the model's {heads} KV heads (`num_key_value_heads`)",
                hint=f"use a divisor or a multiple of {heads}",
            )


def check_dcp(
    dcp: int, tp: int, attention_heads: int | None, kv_heads: tuple[int, ...], *, latent: bool
) -> None:
    """Whether decode context parallelism can reuse the TP group (vLLM `verify_with_parallel_config`)."""
    if dcp == 1:
        return
    if tp % dcp:
        raise InputError(
            f"`--dcp {dcp}` does not divide `--tp {tp}`",
            hint="decode context parallelism splits the TP group",
        )
    if latent:
        return
    most = max(kv_heads, default=1)
    if tp <= most or dcp > tp // most:
        raise InputError(
            f"`--dcp {dcp}` needs KV heads that `--tp {tp}` replicates at least {dcp} times; the model has {most}",
            hint=f"raise `--tp` to {most * dcp} or more, or drop `--dcp`",
        )
    if attention_heads is not None and (attention_heads // most) % dcp:
        raise InputError(
            f"`--dcp {dcp}` does not divide the {attention_heads // most} query heads per KV head",
            hint="choose a `--dcp` that divides them, or drop it",
        )


def pipeline_ranges(layers: int, pp: int) -> tuple[range, ...]:
    """Which decoder layers each pipeline rank holds.

    Left-over layers go one each to the ranks before the last, from the back (vLLM `get_pp_indices`).
    """
    if pp > layers:
        raise InputError(
            f"`--pp {pp}` is more than the model's {format_counted(layers, 'layer')}",
            hint=f"use at most {layers}",
        )
    counts = [layers // pp] * pp
    for back in range(2, layers % pp + 2):
        counts[-back] += 1
    starts = [sum(counts[:rank]) for rank in range(pp)]
    return tuple(range(start, start + count) for start, count in zip(starts, counts, strict=True))


def heads_per_rank(heads: int, tp: int) -> int:
    """KV heads on each rank: split, or replicated when there are fewer than ranks."""
    return max(1, heads // tp)


def _powers_up_to(limit: int) -> list[int]:
    return [1 << shift for shift in range(limit.bit_length()) if 1 << shift <= limit]
