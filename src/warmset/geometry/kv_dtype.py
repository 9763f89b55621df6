"""KV-cache data types: the names that `--kv-cache-dtype` takes, and the bytes that each stores per head and token.

Sizes are those of vLLM 0.32: `customize_spec` of the attention backends and
`quantization/turboquant/config.py`, `ops/ultraquant/format.py` for the packed formats.
"""

import math
from dataclasses import dataclass

from warmset.errors import InputError, UnknownName

ALIASES = {
    "fp16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
    "fp8e4m3": "fp8_e4m3",
    "fp8e5m2": "fp8_e5m2",
}
PER_TOKEN_HEAD = ("int4_per_token_head", "int8_per_token_head", "fp8_per_token_head")
TURBOQUANT = {
    # name: (key bits, value bits); 8-bit keys are plain fp8 without a norm
    "turboquant_k8v4": (8, 4),
    "turboquant_4bit_nc": (4, 4),
    "turboquant_k3v4_nc": (3, 4),
    "turboquant_3bit_nc": (3, 3),
}
FP8 = ("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc")
NVFP4 = ("nvfp4", "nvfp4_4over6")
# Latent caches packed with their scales: bytes of one token of one layer.
PACKED_LATENT_BYTES = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}
BOUNDARY_SKIPPING = (*TURBOQUANT, "ultraquant_4bit")
PLAIN = ("auto", "float16", "bfloat16")

KV_DTYPES: tuple[str, ...] = (
    *PLAIN,
    *FP8,
    *PACKED_LATENT_BYTES,
    *TURBOQUANT,
    "ultraquant_4bit",
    *PER_TOKEN_HEAD,
    *NVFP4,
)

_SCALE_BYTES = 4  # one fp32 scale per side of each head and token
_ULTRAQUANT_GROUP = 32


@dataclass(frozen=True, slots=True)
class HeadFormat:
    """How one head of one token is stored.

    `element` is the type of an unpacked value. `packed_bytes` is the whole entry when it is not simply
    key and value elements; `slots_per_head` is 2 where key and value are stored as separate entries.
    """

    element: str
    packed_bytes: int | None = None
    slots_per_head: int = 1


def parse_kv_dtype(name: str) -> str:
    """The canonical name of a KV dtype; UnknownName with suggestions otherwise."""
    lowered = name.strip().lower()
    canonical = ALIASES.get(lowered, lowered)
    if canonical not in KV_DTYPES:
        raise UnknownName(
            "KV dtype",
            name[:80],
            (*KV_DTYPES, *ALIASES),
            hint="known: " + ", ".join((*KV_DTYPES, "fp16", "bf16")),
        )
    return canonical


def element_of(kv_dtype: str, model_dtype: str) -> str:
    """The element type of an unpacked cache: `auto` follows the model's own type."""
    if kv_dtype == "auto":
        return model_dtype
    if kv_dtype in ("float16", "bfloat16"):
        return kv_dtype
    return {"int8_per_token_head": "int8", "fp8_inc": "float8_e4m3fn"}.get(kv_dtype, "uint8")


def head_format(kv_dtype: str, model_dtype: str, head_dim: int, value_head_dim: int) -> HeadFormat:
    """How `kv_dtype` stores one head of `head_dim` key and `value_head_dim` value elements."""
    element = element_of(kv_dtype, model_dtype)
    if kv_dtype in PER_TOKEN_HEAD:
        divisor = 2 if kv_dtype.startswith("int4") else 1
        data = head_dim // divisor + value_head_dim // divisor
        return HeadFormat(element, data + 2 * _SCALE_BYTES)
    if kv_dtype in NVFP4:
        if head_dim != value_head_dim:
            raise InputError(
                f"KV dtype `{kv_dtype}` needs equal sizes of keys and values, not {head_dim} and {value_head_dim}",
                hint="use `--kv-dtype fp8`",
            )
        return HeadFormat(element, head_dim // 2 + head_dim // 16, slots_per_head=2)
    if kv_dtype in TURBOQUANT:
        key_bits, value_bits = TURBOQUANT[kv_dtype]
        key = head_dim if key_bits == 8 else math.ceil(head_dim * key_bits / 8) + 2
        slot = key + math.ceil(head_dim * value_bits / 8) + 4
        return HeadFormat(element, slot + slot % 2)
    if kv_dtype == "ultraquant_4bit":
        if head_dim % _ULTRAQUANT_GROUP:
            raise InputError(
                f"KV dtype `{kv_dtype}` needs a `head_dim` that is a multiple of {_ULTRAQUANT_GROUP}, not {head_dim}",
                hint="use `--kv-dtype fp8`",
            )
        return HeadFormat(element, head_dim + 2 * (head_dim // _ULTRAQUANT_GROUP))
    return HeadFormat(element)


def quantized(kv_dtype: str) -> str:
    """The quantization mode as vLLM tells modes apart: layers of different modes never share a group."""
    if kv_dtype in PLAIN:
        return ""
    return (
        "fp8"
        if kv_dtype.startswith("fp8") and kv_dtype not in PER_TOKEN_HEAD
        else kv_dtype.removesuffix("_4over6")
    )
