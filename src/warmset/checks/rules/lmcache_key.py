"""Keys of LMCache's configuration that it does not read."""

from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule, replacing
from warmset.servers import engine as load_engine
from warmset.servers import inspected

_RENAMED = {
    "local_device": "local_cpu",
    "max_local_cache_size": "max_local_cpu_size",
    "remote_device": "remote_url",
    "pipelined_backend": "enable_async_loading",
}

# Keys that are compared at the most; the format has under two hundred.
_MOST = 2_000


def check(case: Case) -> Iterator[Answer]:
    """The configuration file in force, and `lmcache.*` keys of the connector."""
    known = _known()
    for file in case.inputs.lmcache if case.lmcache.file is None else (case.lmcache.file,):
        for key, value in file.pairs[:_MOST]:
            if key.value in known:
                continue
            word = key.word
            new = _RENAMED.get(key.value)
            if new is not None:
                shown = "true" if new == "local_cpu" else value.value[:60]
                if key.value == "local_device" and value.value not in ("cpu", "cuda", ""):
                    new, shown = "local_disk", value.value[:60]
                edit = replacing(word, key.value, new) if new == "max_local_cpu_size" else None
                yield Hit(
                    f"`{key.value}` is a key of LMCache's first format and is ignored: it is `{new}` now",
                    word,
                    fix=f"{new}: {shown}",
                    edit=edit,
                )
                continue
            near = get_close_matches(key.value, sorted(known), n=1, cutoff=0.8)
            if near:
                yield Hit(
                    f"LMCache has no `{key.value}`: did you mean `{near[0]}`?",
                    word,
                    fix=f"{near[0]}: {value.value[:60]}",
                    edit=replacing(word, key.value, near[0]),
                )
            else:
                yield Hit(f"LMCache has no `{key.value}`", word, "warning", "remove it", "medium")
    for connector in case.kv.connectors:
        for name in connector.extra:
            key_name = name.removeprefix("lmcache.")
            if not name.startswith("lmcache.") or name.startswith("lmcache.mp.") or key_name in known:
                continue
            near = (
                [_RENAMED[key_name]]
                if key_name in _RENAMED
                else get_close_matches(key_name, sorted(known), n=1, cutoff=0.8)
            )
            if near:
                yield Hit(
                    f"LMCache has no `{key_name}`: it is `{near[0]}`",
                    connector.key(name),
                    fix=f'"lmcache.{near[0]}"',
                )


@cache
def _known() -> frozenset[str]:
    names: set[str] = set()
    for version in inspected("lmcache"):
        names |= set(load_engine(f"lmcache@{version}").config_fields("LMCacheEngineConfig"))
    return frozenset(names)


RULE = Rule(
    "lmcache-key",
    "error",
    "A key that LMCache's configuration does not have.",
    "The first format had local_device and max_local_cache_size; now they are local_cpu (or local_disk) and "
    "max_local_cpu_size. A key that is not known is passed over, and the default is in force.",
    "local_device: cpu\nmax_local_cache_size: 20",
    "local_cpu: true\nmax_local_cpu_size: 20",
    "LMCache v1 format",
    "LMCache issue 437; v1/config.py",
    check,
)
