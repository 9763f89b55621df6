"""What to launch: one frozen request, checked when it is built."""

import re
from dataclasses import dataclass
from fractions import Fraction

from warmset.addresses import bare, check_endpoint
from warmset.errors import InputError, UnknownName
from warmset.geometry import KV_DTYPES
from warmset.plan.request import BACKENDS
from warmset.servers import Engine
from warmset.units import MAX_BYTES, MIB

TARGETS = ("shell", "compose", "helm", "kserve")

# Written for a model that was not named.
UNNAMED_MODEL = "MODEL"

MAX_RANKS = 65536

_PLAIN = re.compile(r"[^\x00-\x1f\x7f`$\\\"']+")
# The stores of the warmset tier; vLLM's own object tier knows S3 alone.
_STORE_URL = re.compile(
    r"(?:s3|gs|az)://[a-z0-9][a-z0-9.\-_]{0,221}(?:/[^\s?#]*)?|rediss?://[^\s@/?#]+(?:/\d{1,4})?"
)
_OBJECT_URL = re.compile(r"s3://([a-z0-9][a-z0-9.\-]{0,62})(?:/(.*))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """A server to start with an offload tier.

    Attributes:
        model: as the server names it (a Hub id or a path); None writes `MODEL`.
        tier_bytes: host tier per data-parallel replica, all its ranks together.
        engine: the server and its version.
        backend: one of BACKENDS.
        target: one of TARGETS.
        tp, pp, dp: tensor-, pipeline- and data-parallel sizes.
        disk_path: directory of the disk tier on the host.
        disk_bytes: size of the disk tier per replica; needed for LMCache, where it turns the tier on. For the
            warmset tier it bounds the store, whatever its kind. vLLM's own disk tier has no bound: a note says so.
        object_url: `s3://bucket/prefix` of the object tier; the warmset tier also takes gs://, az:// and redis://.
        endpoint: URL of an object store other than AWS.
        kv_dtype: as `--kv-cache-dtype` takes it.
        lmcache: the version of LMCache; None is the newest known.
        block_size: tokens per device block; None leaves it to the server.
        max_model_len: longest context served, in tokens; None leaves it to the model.
        port: port of the server; None is the server's own.
        bytes_per_token_per_rank: KV bytes of one token on one rank; only vLLM 0.11 to 0.13 need it.
        block_tokens: tokens per device block where the server chooses (with `bytes_per_token_per_rank`).
        ranks_cache_the_same: whether all ranks cache the same latents (MLA), of which LMCache in the workers stores
            the first rank's alone.
        regions_per_rank: separate host tensors on each rank; vLLM that pins its tier rounds each of them up.
        pools: how often SGLang takes the size that it is given (once for each kind of cache).
        one_kind_of_cache: whether all layers are known to cache alike: what is said about hybrid models is then left
            out.
    """

    tier_bytes: int
    engine: Engine
    model: str | None = None
    backend: str = "native"
    target: str = "shell"
    tp: int = 1
    pp: int = 1
    dp: int = 1
    disk_path: str = "/kv"
    disk_bytes: int | None = None
    object_url: str | None = None
    endpoint: str | None = None
    kv_dtype: str = "auto"
    lmcache: Engine | None = None
    block_size: int | None = None
    max_model_len: int | None = None
    port: int | None = None
    bytes_per_token_per_rank: Fraction | int | None = None
    block_tokens: int = 16
    ranks_cache_the_same: bool = False
    regions_per_rank: int = 1
    pools: int = 1
    one_kind_of_cache: bool = False

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise UnknownName("backend", self.backend[:40], BACKENDS, hint="one of " + ", ".join(BACKENDS))
        if self.target not in TARGETS:
            raise UnknownName("target", self.target[:40], TARGETS, hint="one of " + ", ".join(TARGETS))
        _check_size("tier", self.tier_bytes)
        if self.disk_bytes is not None:
            _check_size("disk tier", self.disk_bytes)
        for name, value in (("--tp", self.tp), ("--pp", self.pp), ("--dp", self.dp)):
            _check_count(name, value, MAX_RANKS)
        if self.block_size is not None:
            _check_count("--block-size", self.block_size, 1 << 20)
        if self.max_model_len is not None:
            _check_count("--max-model-len", self.max_model_len, 1 << 40)
        if self.port is not None:
            _check_count("--port", self.port, 65535, "8000")
        if self.model is not None and (
            not _PLAIN.fullmatch(self.model) or self.model.startswith("-") or self.model != self.model.strip()
        ):
            raise InputError(
                f"model `{self.model[:80]!r}` is not a name that a server takes",
                hint="give a Hub id or a path",
            )
        if self.kv_dtype not in ("fp16", "bf16", *KV_DTYPES):
            known = ("fp16", "bf16", *KV_DTYPES)
            raise UnknownName("KV dtype", self.kv_dtype[:40], known, hint="known: " + ", ".join(known))
        if not self.disk_path.startswith("/") or not _PLAIN.fullmatch(self.disk_path):
            raise InputError(
                f"disk path `{self.disk_path[:80]}` is not an absolute path",
                hint="write it like `/mnt/nvme/kv`",
            )
        self._check_options()

    def _check_options(self) -> None:
        """Refuse options that the backend would ignore in silence."""
        if self.backend == "native+object":
            if self.object_url is None:
                raise InputError(
                    "backend `native+object` needs an object store",
                    hint="name it with `--object-store s3://BUCKET/PREFIX`",
                )
            if not _OBJECT_URL.fullmatch(self.object_url) or not _PLAIN.fullmatch(self.object_url):
                raise InputError(
                    f"object store `{bare(self.object_url)[:80]}` is not an S3 address",
                    hint="write it like `s3://bucket/prefix`",
                )
            if self.endpoint is not None:
                check_endpoint(self.endpoint)
        elif self.backend == "native+warmset":
            self._check_store()
        elif self.object_url is not None or self.endpoint is not None:
            raise InputError(
                f"backend `{self.backend}` takes no object store", hint="use `--backend native+object`"
            )
        if self.disk_bytes is not None and self.backend not in (
            "native+disk",
            "native+warmset",
            "lmcache",
            "lmcache-inprocess",
        ):
            raise InputError(
                f"backend `{self.backend}` has no disk tier",
                hint="use `--backend native+disk`, or leave `--disk-size` out",
            )
        if self.lmcache is not None and not self.backend.startswith("lmcache"):
            raise InputError(
                f"backend `{self.backend}` does not use LMCache",
                hint="use `--backend lmcache`, or leave `--lmcache` out",
            )

    def _check_store(self) -> None:
        """The warmset tier takes a disk, or any store with an address."""
        if self.object_url is None:
            if self.endpoint is not None:
                raise InputError(
                    f"endpoint `{bare(self.endpoint)[:80]}` belongs to no object store",
                    hint="name the store with `--object-store s3://BUCKET/PREFIX`, or leave `--endpoint` out",
                )
            return
        if not _STORE_URL.fullmatch(self.object_url) or not _PLAIN.fullmatch(self.object_url):
            raise InputError(
                f"object store `{bare(self.object_url)[:80]}` is not an address of a store",
                hint="write it like `s3://bucket/prefix`, `gs://…`, `az://…` or `redis://host:6379/0`; "
                "credentials come from the environment",
            )
        if self.endpoint is not None:
            check_endpoint(self.endpoint)

    @property
    def ranks(self) -> int:
        """Ranks of one replica: TP × PP."""
        return self.tp * self.pp

    @property
    def devices(self) -> int:
        """Devices of the whole server: TP × PP × DP."""
        return self.ranks * self.dp

    @property
    def served_model(self) -> str:
        """The model as the command names it."""
        return self.model or UNNAMED_MODEL

    @property
    def bucket(self) -> tuple[str, str]:
        """Bucket and prefix of the object store."""
        match = _OBJECT_URL.fullmatch(self.object_url or "")
        assert match is not None
        return match[1], (match[2] or "").strip("/")


def _check_size(what: str, size_bytes: int) -> None:
    if size_bytes < MIB:
        raise InputError(
            f"{what} of `{size_bytes}` bytes is too small to launch",
            hint="a tier has at least 1 MiB; to leave offload off, start the server without a tier",
        )
    if size_bytes > MAX_BYTES:
        raise InputError(f"{what} of `{size_bytes}` bytes is absurdly large", hint="check the unit")


def _check_count(name: str, value: int, maximum: int, usual: str = "1") -> None:
    if not 1 <= value <= maximum:
        raise InputError(
            f"value of `{name}` `{value}` is not between 1 and {maximum}",
            hint=f"write it like `{name} {usual}`",
        )
