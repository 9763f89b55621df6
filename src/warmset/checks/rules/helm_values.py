"""Values that the production-stack chart does not read as they look."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule, replacing
from warmset.checks.record import to_number


def check(case: Case) -> Iterator[Answer]:
    """Wrong case, integer truncation, and `enablePD: false`."""
    if case.launch.origin != "helm":
        return
    values = case.launch.settings
    wrong = next(
        (w for n, w in values.items() if n.startswith("lmCacheConfig") and n.endswith("\0key")), None
    )
    if wrong is not None:
        key = values.get("lmCacheConfig\0key", wrong)
        yield Hit(
            "the chart reads `lmcacheConfig`; `lmCacheConfig` (the operator's spelling) is ignored",
            key,
            fix="lmcacheConfig:",
            edit=replacing(key, "lmCacheConfig", "lmcacheConfig"),
        )
    size = values.get("lmcacheConfig.cpuOffloadingBufferSize")
    number = to_number(size.value) if size is not None else None
    if size is not None and number is not None and 0 < number < 1:
        yield Hit(
            f"the chart truncates `{size.value}` to 0 and leaves the size out: LMCache then takes 5 GiB per rank",
            size,
            "warning",
            'cpuOffloadingBufferSize: "1"',
        )
    pd = values.get("lmcacheConfig.enablePD")
    if pd is not None and pd.value.lower() in ("false", "no"):
        yield Hit(
            (
                "the chart tests that `enablePD` is there, not what it says: `false` gives the prefill/decode branch "
                "and invalid JSON"
            ),
            values.get("lmcacheConfig.enablePD\0key", pd),
            fix="remove `enablePD`",
        )


RULE = Rule(
    "helm-values",
    "error",
    "A chart value that is not read as it looks.",
    "Rendering the production-stack chart shows: `lmCacheConfig` is ignored (the chart's key is lmcacheConfig), "
    "`cpuOffloadingBufferSize` is truncated to a whole number of GiB per worker, and `enablePD: false` still "
    "renders the "
    "prefill/decode branch with invalid JSON.",
    "lmCacheConfig: {enabled: true}",
    "lmcacheConfig: {enabled: true}",
    "production-stack chart 0.1.12",
    "production-stack PR 511; chart 0.1.12, rendered",
    check,
)
