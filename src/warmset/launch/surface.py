"""Lets a name into a command only if the server's version has it; anything else is refused with a version that can."""

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from warmset.errors import Unsupported
from warmset.servers import Engine, Version, inspected
from warmset.servers.facts import Kind


class Surface:
    """The names that one server version knows."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def flag(self, name: str) -> str:
        """The flag, if the command line takes it."""
        if not self.engine.has_flag(name):
            self._refuse("flag", name)
        return name

    def env(self, name: str) -> str:
        """The variable, if the server reads it."""
        if self.engine.env(name) is None:
            self._refuse("env", name)
        return name

    def transfer_config(
        self, connector: str, extra: Mapping[str, Any], *, beside: Engine | None = None, **fields: Any
    ) -> dict[str, Any]:
        """A KVTransferConfig whose fields, connector, spec, tiers and keys this version all has.

        `beside` is a second package whose connector class brings keys of its own. `kv_load_failure_policy` is
        set to `recompute` where losing a block would otherwise fail the request.
        """
        if self.engine.connector(connector) is None:
            self._refuse("connector", connector)
        config: dict[str, Any] = {"kv_connector": connector, "kv_role": "kv_both", **fields}
        if self.engine.default("kv_load_failure_policy") == "fail":
            config["kv_load_failure_policy"] = "recompute"
        if extra:
            config["kv_connector_extra_config"] = dict(extra)
        known = self.engine.config_fields("KVTransferConfig")
        for name in config:
            if name not in known:
                self._refuse("config_field", name)
        self._check_keys(connector, extra, beside)
        return config

    def _check_keys(self, connector: str, extra: Mapping[str, Any], beside: Engine | None) -> None:
        spec = extra.get("spec_name")
        if spec is not None and self.engine.spec(spec) is None:
            self._refuse("connector", spec)
        known = set(self.engine.extra_config_keys(connector, spec))
        if beside is not None:
            known |= set(beside.extra_config_keys(connector))
        for name in extra:
            if name not in known:
                self._refuse("extra_key", name)
        for tier in extra.get("secondary_tiers", ()):
            if "module_path" in tier:
                # A tier from outside: its keys are its own, the version must only be able to import it.
                if not self.takes_outside_tiers(connector, spec):
                    self._refuse("extra_key", "module_path")
                continue
            if self.engine.tier(tier["type"]) is None:
                self._refuse("connector", tier["type"])
            keys = self.engine.extra_config_keys(connector, spec, tier["type"])
            given = set(tier) | {f"store_config.{name}" for name in tier.get("store_config", ())}
            for name in sorted(given - set(keys)):
                self._refuse("extra_key", name)

    def takes_outside_tiers(self, connector: str, spec: str | None) -> bool:
        """Whether a lower tier may be a class of another package."""
        return any(
            "module_path" in self.engine.extra_config_keys(connector, spec, tier.name)
            for tier in self.engine.connectors("tier")
        )

    def _refuse(self, kind: Kind, name: str) -> NoReturn:
        refuse(self.engine, f"has no `{name}`", self.engine.versions_with(kind, name))


def refuse(engine: Engine, why: str, able: tuple[Version, ...]) -> NoReturn:
    """Raise Unsupported, naming the versions that can: the nearest, newer ones first."""
    newer = [v for v in able if v > engine.facts_version]
    if newer:
        hint = f"{engine.server} {newer[0]} can: `--engine {engine.server}@{newer[0]}`"
        if newer[0] != inspected(engine.server)[-1]:
            hint = hint.replace(" can:", " and newer can:", 1)
    elif able:
        hint = f"{engine.server} {able[-1]} was the last that can: `--engine {engine.server}@{able[-1]}`"
    else:
        hint = "no known version can; choose another `--backend`"
    raise Unsupported(f"{engine.server} {engine.version} {why}", hint=hint)


def compact(value: object) -> str:
    """JSON without blanks, so that no shell, chart or template can split it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
