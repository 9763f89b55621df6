"""LMCache's server without the flags that it must have, or with a policy that its version lacks."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule, Severity

# Both are required in every version that has them, unless the host memory is described as JSON.
_REQUIRED = (("--l1-size-gb", "60"), ("--eviction-policy", "LRU"))
_INSTEAD = "--l1-manager"


def check(case: Case) -> Iterator[Answer]:
    """The required flags, then the value of the policy against the version's list."""
    launch = case.launch
    if launch.server != "lmcache-server":
        return
    named: Severity = "warning" if case.assumed else "error"
    lacking = [(flag, example) for flag, example in _REQUIRED if not launch.has(flag)]
    if lacking and launch.complete and not launch.has(_INSTEAD):
        names = " and ".join(f"`{flag}`" for flag, _ in lacking)
        yield Hit(
            f"the server does not start without {names}: {'it is' if len(lacking) == 1 else 'they are'} required",
            launch.where,
            fix=" ".join(f"{flag} {example}" for flag, example in lacking),
        )
    policy, fact = launch.flag("--eviction-policy"), case.engine.flag("--eviction-policy")
    if policy is None or policy.value is None or not policy.value.known or fact is None or not fact.values:
        return
    value = policy.value.value
    if value not in fact.values:
        same = next((v for v in fact.values if v.lower() == value.lower()), "LRU")
        yield Hit(
            f"`{value[:40]}` is no eviction policy of {case.engine}: it has {', '.join(fact.values)}",
            policy.value,
            "error" if value.lower() in {v.lower() for v in fact.values} else named,
            f"--eviction-policy {same}",
        )


RULE = Rule(
    "lmcache-server-flags",
    "error",
    "LMCache's server without a flag that it requires.",
    "`lmcache server` has no default for the size of its host memory and none for how it evicts. Without "
    "`--l1-size-gb` and `--eviction-policy` (or, since 0.5.6, `--l1-manager`) it ends with a usage error, and every "
    "client then computes all prompts itself.",
    "lmcache server --l1-size-gb 60",
    "lmcache server --l1-size-gb 60 --eviction-policy LRU",
    "LMCache 0.3.15 and newer",
    "lmcache v1/multiprocess, cli/commands/server.py",
    check,
)
