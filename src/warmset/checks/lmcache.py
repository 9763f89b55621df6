"""LMCache's configuration as a launch gives it: connector keys, configuration file, environment."""

from collections.abc import Mapping
from dataclasses import dataclass

from warmset.checks.kv import KV
from warmset.checks.record import ServerLaunch, to_number, truthy
from warmset.checks.text import Place, Word
from warmset.checks.tree import Node

IN_PROCESS = ("LMCacheConnectorV1", "LMCacheConnector")


@dataclass(frozen=True, slots=True)
class Setting:
    """One value with where it was said: `extra` (connector JSON), `file` or `env`."""

    key: str
    value: str
    at: Word | Place
    via: str

    @property
    def number(self) -> float | None:
        """The value as a number."""
        return to_number(self.value)


@dataclass(frozen=True, slots=True)
class LMCache:
    """All settings of one launch; `settings` holds what is in force."""

    settings: Mapping[str, Setting]
    file: Node | None
    env: Mapping[str, Word]

    def get(self, key: str) -> Setting | None:
        """The setting in force, or None where LMCache's own default holds."""
        return self.settings.get(key)

    def number(self, key: str, default: float) -> float:
        """A number in force, or the default."""
        found = self.settings.get(key)
        return default if found is None or found.number is None else found.number

    def on(self, key: str, default: bool) -> bool:
        """A switch in force."""
        found = self.settings.get(key)
        return default if found is None else truthy(found.value)

    @property
    def remote(self) -> Setting | None:
        """The shared store below, if any."""
        found = self.settings.get("remote_url") or self.settings.get("remote_storage_plugins")
        return found if found is not None and found.value not in ("", "null", "None", "~", "[]") else None

    @property
    def disk(self) -> Setting | None:
        """The path of the disk tier, if any."""
        found = self.settings.get("local_disk")
        return (
            found
            if found is not None and found.value.lower() not in ("", "null", "none", "~", "false")
            else None
        )


def read_lmcache(launch: ServerLaunch, kv: KV, files: tuple[Node, ...]) -> LMCache:
    """Connector keys win over the file, the file over the environment."""
    env = {n: w for n, w in launch.env.items() if n.startswith("LMCACHE_")}
    settings = {
        n.removeprefix("LMCACHE_").lower(): Setting(n.removeprefix("LMCACHE_").lower(), w.value, w, "env")
        for n, w in env.items()
        if w.known
    }
    file = _file(launch, files)
    for key, value in file.pairs if file is not None else ():
        if value.kind == "scalar":
            settings[key.value] = Setting(key.value, value.value, value.word, "file")
        else:
            settings[key.value] = Setting(
                key.value, "[…]" if value.items or value.pairs else "[]", key.word, "file"
            )
    for connector in kv.connectors:
        for name, given in connector.extra.items():
            if name.startswith("lmcache.") and not name.startswith("lmcache.mp."):
                setting = name.removeprefix("lmcache.")
                settings[setting] = Setting(setting, str(given), connector.key(name), "extra")
    return LMCache(settings, file, env)


def _file(launch: ServerLaunch, files: tuple[Node, ...]) -> Node | None:
    """The given file that LMCACHE_CONFIG_FILE names, or the only one for a launch that uses LMCache."""
    named = launch.env.get("LMCACHE_CONFIG_FILE")
    if named is not None:
        base = named.value.rsplit("/", 1)[-1]
        same = [f for f in files if f.source.name.rsplit("/", 1)[-1] == base]
        return next(iter(same or files), None)
    return files[0] if len(files) == 1 and launch.server == "vllm" else None
