"""A KV flag given twice, perhaps in two spellings."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule

_FLAGS = (
    "--kv-transfer-config",
    "--kv-offloading-size",
    "--kv-offloading-backend",
    "--kv-events-config",
    "--hicache-size",
    "--hicache-ratio",
    "--hicache-storage-backend",
)


def check(case: Case) -> Iterator[Answer]:
    """Only the last one counts; the others look as if they did."""
    for name in _FLAGS:
        found = case.launch.flags.get(name, ())
        if len(found) < 2:
            continue
        first, last = found[0], found[-1]
        same = first.value is not None and last.value is not None and first.value.value == last.value.value
        spelt = first.word.value.partition("=")[0]
        yield Hit(
            f"`{name}` is given {len(found)} times"
            + (f" (once as `{spelt}`)" if "_" in spelt else "")
            + ": only the last one counts",
            first.word,
            "warning" if same else "error",
            "keep one",
        )


RULE = Rule(
    "duplicate-flag",
    "error",
    "A KV flag is given twice.",
    "vLLM reads `--kv_transfer_config` and `--kv-transfer-config` as the same flag and takes the last one. Charts and "
    "operators add flags of their own to the ones that the user wrote, so that the user's connector disappears.",
    "args: [--kv_transfer_config={…}, --kv-transfer-config={…}]",
    "args: [--kv-transfer-config={…}]",
    "all versions",
    "KServe PR 5599; vLLM argument parser",
    check,
)
