"""One way for all rule tests to check a text."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from warmset.checks import Facts, Finding, collect, run
from warmset.checks.collect import read
from warmset.checks.text import read_source
from warmset.servers import engine
from warmset.units import GIB


@pytest.fixture
def checked(tmp_path: Path) -> Callable[[dict[str, Any]], tuple[Finding, ...]]:
    """Check `text` (named `name`, `start.sh` if not given) with `also` beside it; facts by name, host memory in GiB."""

    def check(case: dict[str, Any]) -> tuple[Finding, ...]:
        texts = {case.get("name", "start.sh"): case["text"], **case.get("also", {})}
        parsed = [read(read_source(name, text.encode())) for name, text in texts.items()]
        facts = Facts(
            case["host_ram"] * GIB if "host_ram" in case else None,
            case.get("gpus"),
            engine(case["engine"]) if "engine" in case else None,
            engine(f"lmcache@{case['lmcache']}") if "lmcache" in case else None,
        )
        return run(collect((), commands=parsed), facts).findings

    return check
