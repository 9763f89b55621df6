"""HiCache and models whose KV cache is the same on every rank."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule
from warmset.units import GB


def check(case: Case) -> Iterator[Answer]:
    """Latent attention under tensor parallelism: every rank keeps a copy."""
    size = case.launch.flag("--hicache-size")
    tp = case.launch.tensor_parallel
    if (
        not case.sglang
        or size is None
        or not size.number
        or tp < 2
        or case.model.kind not in ("mla", "compressed")
    ):
        return
    if case.launch.has("--enable-dp-attention"):
        return
    yield Hit(
        f"`{case.model.name[-60:]}` keeps the same latent on all {tp} ranks: {size.number * tp:g} GB of memory "
        f"hold {size.number:g} GB of "
        f"different content ({tp - 1}/{tp} are copies)",
        size.value or size.word,
        fix=f"count the capacity as {int(size.number * GB):,} bytes",
        confidence="medium",
    )


RULE = Rule(
    "hicache-copies",
    "warning",
    "HiCache keeps a copy on every rank.",
    "Multi-head latent attention is replicated under tensor parallelism, and `--hicache-size` is per rank: the "
    "memory taken "
    "is size × ranks, what it holds is the size once.",
    "--tp 8 --hicache-size 40 with a DeepSeek or GLM-5 model: 320 GB for 40 GB",
    "data-parallel attention, or a capacity counted once",
    "all versions of SGLang",
    "SGLang PR 26691",
    check,
)
