"""Runs the command line in-process."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jsonschema
import pytest

from warmset.cli.main import main
from warmset.report.data import schema_text


@dataclass(frozen=True)
class Ran:
    """What one command left behind."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)

    def valid(self, schema: str) -> Any:
        """The JSON, held against the schema of that name."""
        payload = self.json()
        jsonschema.validate(payload, json.loads(schema_text(schema)))
        return payload


@pytest.fixture
def warmset(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """`warmset("plan", …)` runs the command and returns exit code, stdout and stderr."""

    def run(*arguments: object) -> Ran:
        code = main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run
