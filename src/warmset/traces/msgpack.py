"""Decodes the part of MessagePack that KV events use: nil, booleans, numbers, text, bytes, arrays and maps.

Source: the MessagePack specification. Extension types raise ValueError.
"""

import struct
from typing import Any

_MAX_DEPTH = 16
_NUMBERS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
_LENGTHS = {
    0xC4: (">B", "bin"), 0xC5: (">H", "bin"), 0xC6: (">I", "bin"),
    0xD9: (">B", "str"), 0xDA: (">H", "str"), 0xDB: (">I", "str"),
    0xDC: (">H", "array"), 0xDD: (">I", "array"), 0xDE: (">H", "map"), 0xDF: (">I", "map"),
}  # fmt: skip


def unpack(data: bytes) -> Any:
    """The one value that `data` encodes; ValueError where it is cut short, too deep or something else."""
    value, end = _value(data, 0, 0)
    if end != len(data):
        raise ValueError("bytes are left after the value")
    return value


def _value(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    if at >= len(data):
        raise ValueError("cut short")
    tag, at = data[at], at + 1
    if tag <= 0x7F:
        return tag, at
    if tag >= 0xE0:
        return tag - 256, at
    if tag in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[tag], at
    if tag in _NUMBERS:
        return _number(data, at, _NUMBERS[tag])
    if tag <= 0x8F:
        return _items(data, at, tag & 0x0F, "map", depth)
    if tag <= 0x9F:
        return _items(data, at, tag & 0x0F, "array", depth)
    if tag <= 0xBF:
        return _bytes(data, at, tag & 0x1F, "str")
    if tag not in _LENGTHS:
        raise ValueError(f"type 0x{tag:02x} is not supported")
    form, kind = _LENGTHS[tag]
    length, at = _number(data, at, form)
    if kind in ("bin", "str"):
        return _bytes(data, at, length, kind)
    return _items(data, at, length, kind, depth)


def _number(data: bytes, at: int, form: str) -> tuple[Any, int]:
    end = at + struct.calcsize(form)
    if end > len(data):
        raise ValueError("cut short")
    return struct.unpack_from(form, data, at)[0], end


def _bytes(data: bytes, at: int, length: int, kind: str) -> tuple[bytes | str, int]:
    end = at + length
    if end > len(data):
        raise ValueError("cut short")
    raw = data[at:end]
    return (raw.decode("utf-8") if kind == "str" else raw), end


def _items(data: bytes, at: int, length: int, kind: str, depth: int) -> tuple[Any, int]:
    # Each item takes a byte or more: a length beyond the data is a lie and must not allocate.
    if length > len(data) - at:
        raise ValueError("cut short")
    if kind == "array":
        items = []
        for _ in range(length):
            item, at = _value(data, at, depth + 1)
            items.append(item)
        return items, at
    pairs = {}
    for _ in range(length):
        key, at = _value(data, at, depth + 1)
        value, at = _value(data, at, depth + 1)
        if not isinstance(key, (str, int, bytes)):
            raise ValueError("a key is neither text nor a number")
        pairs[key] = value
    return pairs, at
