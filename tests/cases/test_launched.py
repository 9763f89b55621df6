"""Everything that `warmset launch` writes passes `warmset check` without an error."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from warmset.checks import Facts, collect, run
from warmset.errors import InputError
from warmset.launch import BACKENDS, TARGETS, LaunchRequest, write
from warmset.servers import engine, inspected
from warmset.units import GIB

ENGINES = [f"vllm@{v}" for v in inspected("vllm")] + [f"sglang@{v}" for v in inspected("sglang")]


def _written(name: str, backend: str, target: str, tp: int) -> Any:
    lmcache = engine("lmcache@0.4.7") if "lmcache" in backend else None
    try:
        return write(
            LaunchRequest(
                model="meta-llama/Llama-3.1-8B-Instruct",
                tier_bytes=128 * GIB,
                engine=engine(name),
                backend=backend,
                target=target,
                tp=tp,
                disk_bytes=2048 * GIB if "disk" in backend else None,
                object_url="s3://kv/prod" if "object" in backend else None,
                lmcache=lmcache,
                bytes_per_token_per_rank=131072 // tp,
            )
        )
    except InputError:
        return None


@pytest.mark.parametrize("name", ENGINES)
def test_no_error(name: str, tmp_path: Path) -> None:
    written = 0
    for backend, (target, tp) in product(BACKENDS, [("shell", 1), *((t, 4) for t in TARGETS)]):
        launch = _written(name, backend, target, tp)
        if launch is None:
            continue
        written += 1
        folder = tmp_path / f"{backend}-{target}-{tp}".replace("+", "-")
        folder.mkdir()
        for file, text in launch.files.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        if target == "shell":
            (folder / "start.sh").write_text(launch.command + "\n")
        facts = Facts(host_ram_bytes=1024 * GIB, engine=engine(name), lmcache=launch.request.lmcache)
        result = run(collect([str(folder)]), facts)
        errors = [
            f"{f.rule}: {f.message} ({f.place.file}:{f.place.line})"
            for f in result.findings
            if f.severity == "error"
        ]
        assert errors == [], (backend, target, tp, launch.command)
    assert written or name.startswith(("vllm@0.8", "vllm@0.9", "vllm@0.10"))
