"""HiCache settings without HiCache."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule


def check(case: Case) -> Iterator[Answer]:
    """`--hicache-*` without `--enable-hierarchical-cache`; both LMCache and HiCache."""
    if not case.sglang:
        return
    on = case.launch.flag("--enable-hierarchical-cache")
    given = [f[-1] for name, f in case.launch.flags.items() if name.startswith("--hicache-")]
    if given and on is None and case.launch.origin != "patch":
        yield Hit(
            f"`{given[0].name}` has no effect: HiCache is off",
            given[0].word,
            fix="--enable-hierarchical-cache",
            confidence="high" if case.launch.complete else "medium",
        )
    lmcache = case.launch.flag("--enable-lmcache")
    if on is not None and lmcache is not None:
        yield Hit(
            "`--enable-lmcache` and `--enable-hierarchical-cache` exclude each other",
            lmcache.word,
            "error",
            "keep one of the two",
        )


RULE = Rule(
    "hicache-off",
    "error",
    "HiCache is configured and not switched on.",
    "The sizes and backends of HiCache count only with `--enable-hierarchical-cache`.",
    "python -m sglang.launch_server --model-path M --hicache-size 40",
    "python -m sglang.launch_server --model-path M --enable-hierarchical-cache --hicache-size 40",
    "all versions of SGLang",
    "SGLang server_args.py",
    check,
)
