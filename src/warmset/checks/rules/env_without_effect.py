"""Environment variables that nothing in this launch reads."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule
from warmset.checks.record import truthy

_QUIET = frozenset(
    ("LMCACHE_LOG_LEVEL", "LMCACHE_TRACK_USAGE", "LMCACHE_CONFIG_FILE", "LMCACHE_USE_EXPERIMENTAL")
)


def check(case: Case) -> Iterator[Answer]:
    """Each variable with what it would need to count."""
    env, launch = case.launch.env, case.launch
    if not case.vllm:
        return
    serde = case.lmcache.get("remote_serde")
    if serde is not None and case.lmcache.remote is None and serde.via == "env":
        yield Hit(
            "LMCACHE_REMOTE_SERDE has no effect without LMCACHE_REMOTE_URL",
            serde.at,
            fix="remove it, or set LMCACHE_REMOTE_URL",
        )
    simple = env.get("VLLM_USE_SIMPLE_KV_OFFLOAD")
    if simple is not None and truthy(simple.value) and launch.origin != "env":
        if not case.engine.env("VLLM_USE_SIMPLE_KV_OFFLOAD"):
            yield Hit(
                f"{case.engine} does not read VLLM_USE_SIMPLE_KV_OFFLOAD (0.19 and newer do)",
                simple,
                "warning",
            )
        elif not case.kv.by_flag and launch.complete:
            yield Hit(
                "VLLM_USE_SIMPLE_KV_OFFLOAD only changes what `--kv-offloading-size` does, which is not given",
                simple,
            )
    named, both = env.get("LMCACHE_CONFIG_FILE"), [n for n in case.lmcache.env if n not in _QUIET]
    if named is not None and both and (case.in_process is not None or launch.origin == "env"):
        overridden = [n for n in both if case.lmcache.file is None or _in_file(case, n)]
        if overridden:
            yield Hit(
                f"LMCACHE_CONFIG_FILE and {', '.join(sorted(overridden)[:4])} are both set: which of them wins "
                f"depends on the "
                "version of LMCache",
                case.lmcache.env[overridden[0]],
                fix="keep the file or the variables",
            )
    mp = [
        n
        for n in (
            "LMCACHE_MAX_LOCAL_CPU_SIZE",
            "LMCACHE_LOCAL_CPU",
            "LMCACHE_CHUNK_SIZE",
            "LMCACHE_LOCAL_DISK",
        )
        if n in env
    ]
    if case.client is not None and case.in_process is None:
        for name in mp:
            yield Hit(
                f"{name} is read inside the engine only; the LMCache server has its own flags",
                env[name],
                "warning",
                "--l1-size-gb of `lmcache server`",
            )
    v1 = env.get("VLLM_USE_V1")
    if v1 is not None and not truthy(v1.value) and case.offloads and not case.assumed:
        gone = not case.engine.env("VLLM_USE_V1")
        yield Hit(
            "VLLM_USE_V1=0 selects the V0 engine, which has no KV tier"
            if not gone
            else f"{case.engine} has no V0 engine: VLLM_USE_V1 is ignored",
            v1,
            "note" if gone else "error",
            "remove it",
        )


def _in_file(case: Case, name: str) -> bool:
    key = name.removeprefix("LMCACHE_").lower()
    return case.lmcache.file is not None and key in case.lmcache.file.keys()  # noqa: SIM118  # a node, not a dict


RULE = Rule(
    "env-without-effect",
    "note",
    "A variable that has no effect in this launch.",
    "A serde without a remote store, a disk size without a path, settings beside a configuration file, "
    "in-process settings "
    "under LMCacheMPConnector, the switch for the simple connector without the size flag: each looks configured and "
    "does nothing.",
    "LMCACHE_REMOTE_SERDE=cachegen   # without LMCACHE_REMOTE_URL",
    "LMCACHE_REMOTE_SERDE=cachegen LMCACHE_REMOTE_URL=redis://cache:6379",
    "all versions",
    "production-stack issue 818; LMCache issue 1061",
    check,
)
