"""Environment variables whose names nothing reads."""

from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from itertools import islice

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Edit, Hit, Rule
from warmset.checks.text import Word
from warmset.servers import engine as load_engine
from warmset.servers import inspected

# Names of LMCache's first releases, after the wrong prefix is put right.
_OLD = {
    "LMCACHE_LOCAL_DEVICE": "LMCACHE_LOCAL_CPU",
    "LMCACHE_MAX_LOCAL_CACHE_SIZE": "LMCACHE_MAX_LOCAL_CPU_SIZE",
}
# Read outside LMCache's own configuration, so in no table of keys.
_OTHER = frozenset(
    [
        "LMCACHE_CONFIG_FILE",
        "LMCACHE_USE_EXPERIMENTAL",
        "LMCACHE_LOG_LEVEL",
        "LMCACHE_TRACK_USAGE",
        "LMCACHE_DEBUG",
        "LMCACHE_VERSION",
        "LMCACHE_INSTANCE_ID",
        "LMCACHE_WORKER_ID",
        "LMCACHE_IMAGE",
        "LMCACHE_SERVER_URL",
        "LMCACHE_LMCACHE_INSTANCE_ID",
        "LMCACHE_FORCE_SKIP_SAVE",
        "LMCACHE_L1_SIZE_GB",
        "LMCACHE_PORT",
        "LMCACHE_HOST",
        "LMCACHE_TAG",
    ]
)
# Names that are compared at the most; a real environment has a few dozen.
_MOST = 2_000
_PREFIXES = ("LM_CACHE_", "LMCACHE_", "LM-CACHE", "LMCache_", "lmcache_", "LMCHACHE_", "LMCAHCE_")


def check(case: Case) -> Iterator[Answer]:
    """LMCache's variables, and the few of vLLM that decide about KV."""
    if case.launch.server not in ("vllm", "lmcache-server", "bench"):
        return
    known, vllm = _known("lmcache"), _known("vllm")
    given = {**case.launch.unexported, **case.launch.env}
    for name, word in islice(given.items(), _MOST):
        if name.startswith(_PREFIXES) and name not in known:
            yield from _lmcache(name, word, known)
        elif (
            name.upper() in ("PYTHONHASHSEED", "PYTHON_HASH_SEED", "PYTHONHASH_SEED")
            and name != "PYTHONHASHSEED"
        ):
            yield Hit(
                f"`{name}` is read by nothing: the seed is `PYTHONHASHSEED`",
                word,
                "error",
                "PYTHONHASHSEED=0",
            )
        elif name.startswith("VLLM_") and name not in vllm and _near(name, vllm):
            near = _near(name, vllm)
            yield Hit(
                f"vLLM reads no `{name}`: the name is `{near}`",
                word,
                "warning",
                f"{near}={word.value[:60]}",
                "medium",
            )
        elif name in (
            "VLLM_KV_OFFLOADING_SIZE",
            "VLLM_CPU_OFFLOAD_GB",
            "VLLM_KV_OFFLOAD_SIZE",
            "VLLM_CPU_OFFLOADING_SIZE",
        ):
            yield Hit(f"vLLM reads no `{name}`", word, "error", f"--kv-offloading-size {word.value[:12]}")


def _lmcache(name: str, word: Word, known: frozenset[str]) -> Iterator[Answer]:
    plain = name.upper().replace("LM_CACHE_", "LMCACHE_").replace("LM-CACHE-", "LMCACHE_")
    plain = plain.replace("LMCHACHE_", "LMCACHE_").replace("LMCAHCE_", "LMCACHE_")
    new = _OLD.get(plain, plain)
    near = [new] if new in known else get_close_matches(new, sorted(known), n=1, cutoff=0.8)
    if plain == name and not near:
        yield Hit(
            f"LMCache has no setting behind `{name}`; it is ignored", word, "warning", "remove it", "medium"
        )
        return
    target = near[0] if near else None
    offer = f": the name is `{target}`" if target else ""
    yield Hit(
        f"`{name}` is ignored{offer}, and LMCache's default is in force",
        word,
        fix=f"{target}={_value(name, word)}"
        if target and target != "LMCACHE_USE_EXPERIMENTAL"
        else "remove it",
        edit=_rename(name, target, word) if target and plain == target else None,
    )


def _value(name: str, word: Word) -> str:
    return "True" if name.endswith("LOCAL_DEVICE") else word.value[:60]


def _rename(name: str, target: str, word: Word) -> Edit | None:
    """The name stands right before `=` and the value, in shell text and env files."""
    source = word.text.source
    start = word.text.offset(word.start)
    for gap in ("=", '="', "='"):
        at = start - len(name) - len(gap)
        if at >= 0 and source.text[at:start] == name + gap and not source.name.startswith("<std"):
            return Edit(source.name, at, at + len(name), target)
    return None


@cache
def _near(name: str, known: frozenset[str]) -> str | None:
    """The variable about offload that a name of vLLM's is nearly."""
    about = sorted(n for n in known if "KV_OFFLOAD" in n or "CPU_KVCACHE" in n)
    return next(iter(get_close_matches(name, about, n=1, cutoff=0.88)), None)


@cache
def _known(server: str) -> frozenset[str]:
    """Every variable that any known release reads: an older or newer one is no misspelling."""
    names: set[str] = set(_OTHER)
    for version in inspected(server):
        names.update(fact.name for fact in load_engine(f"{server}@{version}").envs())
    return frozenset(names)


RULE = Rule(
    "env-misspelt",
    "error",
    "A variable that nothing reads because of its spelling.",
    "LMCache reads LMCACHE_ and the name of a setting, in capitals. LM_CACHE_ was a typing error in an early "
    "guide that "
    "still spreads; the names of the first releases (local device, max local cache size) are gone. An unread "
    "variable "
    "leaves the default in force: 5 GiB per rank in host memory.",
    "LM_CACHE_MAX_LOCAL_CACHE_SIZE=500",
    "LMCACHE_MAX_LOCAL_CPU_SIZE=500",
    "all versions of LMCache",
    "LMCache issue 419; v1/config.py",
    check,
)
