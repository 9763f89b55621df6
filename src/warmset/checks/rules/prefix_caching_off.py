"""Prefix caching switched off under a KV tier."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule


def check(case: Case) -> Iterator[Answer]:
    """`--no-enable-prefix-caching` (vLLM) and `--disable-radix-cache` (SGLang) with offload on."""
    if case.sglang:
        flag = case.launch.flag("--disable-radix-cache")
        if flag is not None and case.offloads:
            yield Hit(
                "`--disable-radix-cache` excludes HiCache: there is no cache to put a tier below",
                flag.word,
                "error",
                "remove `--disable-radix-cache`",
            )
        return
    if not case.vllm or not case.offloads or case.launch.enabled("enable-prefix-caching") is not False:
        return
    flag = case.launch.flag("--no-enable-prefix-caching") or case.launch.flag("--enable-prefix-caching")
    assert flag is not None
    fix = (
        "enablePrefixCaching: true"
        if case.launch.origin in ("helm", "operator")
        else "--enable-prefix-caching"
    )
    if case.simple is not None:
        yield Hit(
            "prefix caching is off: SimpleCPUOffloadConnector then does nothing, with one warning in the log",
            flag.word,
            "error",
            fix,
        )
        return
    chart = case.launch.origin in ("helm", "operator") and "enablePrefixCaching" not in flag.word.text.value
    how = (
        "the chart switches prefix caching off where `enablePrefixCaching: true` is not set"
        if chart
        else ("prefix caching is switched off, which old guides for the V0 engine asked for")
    )
    yield Hit(
        f"{how}: the device forgets every prefix and each hit must be loaded from the tier",
        flag.word,
        fix=fix,
    )


RULE = Rule(
    "prefix-caching-off",
    "warning",
    "Prefix caching is off under a KV tier.",
    "The tier extends the prefix cache of the device. With prefix caching off every hit is copied from host "
    "memory again, "
    "also one that the device still holds; SimpleCPUOffloadConnector does nothing at all, and HiCache does not "
    "start. "
    "In the V1 engine prefix caching is on by default; the production-stack chart switches it off unless "
    "`vllmConfig.enablePrefixCaching` is true.",
    "vllm serve M --kv-offloading-size 40 --no-enable-prefix-caching",
    "vllm serve M --kv-offloading-size 40",
    "all versions of the V1 engine",
    "production-stack chart 0.1.12, rendered; vLLM simple CPU offload connector",
    check,
)
