"""The names that the planned server has for what a plan tells its reader to type."""

from warmset.servers import Engine


def context_flag(server: Engine) -> str:
    """The flag for the longest context served."""
    return _first(server, "--max-model-len", "--context-length")[0]


def pool_flags(server: Engine) -> tuple[str, ...]:
    """The flags that give the device pool more of the memory, a share of it first."""
    return _first(
        server,
        "--gpu-memory-utilization",
        "--mem-fraction-static",
        "--kv-cache-memory-bytes",
        "--max-total-tokens",
    )


def kv_dtype_value(server: Engine, name: str) -> str:
    """What the server calls the KV type `name`: SGLang has no plain `fp8`."""
    known = fact.values if (fact := server.flag("--kv-cache-dtype")) is not None else ()
    return next((value for value in (name, f"{name}_e4m3") if value in known), name)


def _first(server: Engine, *names: str) -> tuple[str, ...]:
    return tuple(name for name in names if server.has_flag(name))
