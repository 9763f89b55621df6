"""A tier that is configured and never attached."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Missing, Rule

_SIZES = (
    "LMCACHE_MAX_LOCAL_CPU_SIZE",
    "LMCACHE_LOCAL_CPU",
    "LMCACHE_LOCAL_DISK",
    "LMCACHE_REMOTE_URL",
    "LMCACHE_CONFIG_FILE",
)


def check(case: Case) -> Iterator[Answer]:
    """LMCache in the environment, or a backend, without a connector."""
    launch = case.launch
    if launch.server != "vllm" or case.kv.attached:
        return
    found = next((launch.env[n] for n in _SIZES if n in launch.env), None)
    if launch.origin in ("env", "log", "settings"):
        if found is not None and launch.origin == "env":
            yield Missing(
                "the server's command", "whether a connector is attached: give the script or manifest too"
            )
        return
    if found is not None:
        yield Hit(
            (
                "LMCache is configured, but no `--kv-transfer-config` is passed: the server starts without it and "
                "offloads nothing"
            ),
            found,
            fix='--kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
            confidence="high" if launch.complete else "medium",
        )
    backend = launch.flag("--kv-offloading-backend")
    if backend is not None and launch.flag("--kv-offloading-size") is None and launch.complete:
        yield Hit(
            "`--kv-offloading-backend` does nothing without `--kv-offloading-size`",
            backend.word,
            fix=f"--kv-offloading-size 64 {backend.word.value.partition('=')[0]} {case.kv.backend or 'native'}",
        )
    if case.kv.config is not None and case.kv.written is None and not case.kv.by_flag:
        word = case.kv.word
        assert word is not None
        yield Hit(
            "`--kv-transfer-config` names no `kv_connector`: nothing is attached",
            word,
            "error",
            '"kv_connector": "OffloadingConnector"',
        )


RULE = Rule(
    "connector-missing",
    "warning",
    "A tier is configured and no connector attaches it.",
    "LMCache's variables, or `--kv-offloading-backend`, do nothing by themselves. The connector "
    "(`--kv-transfer-config`) or "
    "the size (`--kv-offloading-size`) attaches the tier; without it the server starts healthy and offloads nothing.",
    "LMCACHE_MAX_LOCAL_CPU_SIZE=50 vllm serve M",
    (
        "LMCACHE_MAX_LOCAL_CPU_SIZE=50 vllm serve M --kv-transfer-config "
        '\'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\''
    ),
    "all versions",
    "production-stack issue 818",
    check,
)
