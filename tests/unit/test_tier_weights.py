"""Weights are known by their content, however they are disguised."""

import os
from pathlib import Path

import pytest

from warmset.errors import InputError
from warmset.tiers import weights
from warmset.tiers.weights import weights_fingerprint


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model-1.safetensors").write_bytes(bytes(100_000))
    (folder / "model-2.safetensors").write_bytes(bytes(range(256)) * 100)
    return folder


def test_the_place_does_not_matter_and_other_files_do_not_count(model: Path, tmp_path: Path) -> None:
    first = weights_fingerprint(model)
    moved = model.rename(tmp_path / "elsewhere")
    (moved / "README.md").write_text("words")
    assert weights_fingerprint(moved) == first


def test_a_tensor_changed_in_place_with_size_and_time_restored_is_noticed(
    model: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache.json"
    before = weights_fingerprint(model, cache_file=cache)
    path = model / "model-1.safetensors"
    stat = path.stat()
    with path.open("r+b") as file:
        file.seek(50_000)
        file.write(b"\1")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert path.stat().st_mtime_ns == stat.st_mtime_ns
    assert path.stat().st_size == stat.st_size
    assert weights_fingerprint(model, cache_file=cache) != before


def test_swapped_shards_are_other_weights(model: Path) -> None:
    before = weights_fingerprint(model)
    one, two = model / "model-1.safetensors", model / "model-2.safetensors"
    one.rename(model / "x")
    two.rename(one)
    (model / "x").rename(two)
    assert weights_fingerprint(model) != before


def test_unchanged_weights_are_read_once(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "deep" / "cache.json"
    first = weights_fingerprint(model, cache_file=cache)
    monkeypatch.setattr(weights, "_digest", lambda path: pytest.fail("read again"))
    assert weights_fingerprint(model, cache_file=cache) == first


@pytest.mark.parametrize("content", ["", "{", "[]", '{"a": 1}', '{"a": "short"}', "\0"])
def test_a_broken_cache_is_ignored(model: Path, tmp_path: Path, content: str) -> None:
    cache = tmp_path / "cache.json"
    cache.write_text(content)
    assert weights_fingerprint(model, cache_file=cache) == weights_fingerprint(model)


def test_links_are_followed_as_the_hugging_face_cache_has_them(model: Path, tmp_path: Path) -> None:
    linked = tmp_path / "snapshot"
    linked.mkdir()
    for path in model.iterdir():
        (linked / path.name).symlink_to(path)
    assert weights_fingerprint(linked) == weights_fingerprint(model)


def test_no_weights_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no weight files") as caught:
        weights_fingerprint(tmp_path)
    assert caught.value.hint
