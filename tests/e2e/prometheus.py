"""A real Prometheus on a free port of the loopback, over blocks made from OpenMetrics text."""

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from warmset.lab.server import free_port


def tool(name: str) -> str:
    """The path of `prometheus` or `promtool`; the test skips where Debian's package is not installed."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed (Debian package prometheus)")
    return path


@contextmanager
def prometheus(folder: Path, openmetrics: str) -> Iterator[str]:
    """Start a server over the given history and yield its address."""
    (folder / "history.om").write_text(openmetrics)
    data = folder / "data"
    made = subprocess.run(
        [
            tool("promtool"),
            "tsdb",
            "create-blocks-from",
            "openmetrics",
            str(folder / "history.om"),
            str(data),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    (folder / "prometheus.yml").write_text("global: {scrape_interval: 15s}\n")
    port = free_port()
    server = subprocess.Popen(
        [
            tool("prometheus"),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={data}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--storage.tsdb.retention.time=10y",
            "--log.level=error",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(200):
            try:
                urllib.request.urlopen(f"{url}/-/ready", timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        else:
            pytest.fail("Prometheus did not start")
        yield url
    finally:
        server.terminate()
        server.wait(10)


def query(url: str, text: str, at: float) -> list[dict[str, Any]]:
    """The result vector of an instant query."""
    arguments = urllib.parse.urlencode({"query": text, "time": f"{at:.3f}"})
    with urllib.request.urlopen(f"{url}/api/v1/query?{arguments}", timeout=10) as answer:
        found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return found
