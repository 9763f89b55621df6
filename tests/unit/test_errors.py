"""The documented exit codes and the exception tree agree."""

import re
from pathlib import Path

from warmset import errors


def _all(base: type[errors.WarmsetError]) -> list[type[errors.WarmsetError]]:
    return [base, *(leaf for child in base.__subclasses__() for leaf in _all(child))]


def test_the_table_in_the_docs_lists_exactly_the_codes_in_use(root: Path) -> None:
    text = (root / "docs/reference/exit-codes.md").read_text()
    documented = {int(code) for code in re.findall(r"^\|\s*(\d+) \|", text, re.MULTILINE)}
    used = {error.exit_code for error in _all(errors.WarmsetError)}
    assert documented == used | {errors.EXIT_DONE, errors.EXIT_INTERRUPTED}


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = dict(re.findall(r"(\w+)\s{2,}(\d+)\s", errors.__doc__ or ""))
    own = [e for e in _all(errors.WarmsetError) if e.__module__ == errors.__name__]
    assert drawn == {error.__name__: str(error.exit_code) for error in own}


def test_an_unknown_name_offers_the_nearest() -> None:
    error = errors.UnknownName("model", "lama-3.1-8b", ["llama-3.1-8b", "qwen3-4b"])
    assert error.suggestions == ("llama-3.1-8b",)
    assert error.hint == "did you mean `llama-3.1-8b`?"
    assert errors.UnknownName("model", "zzz", ["llama"]).hint is None
