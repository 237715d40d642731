"""Prometheus with the discovery of Kubernetes, built from its Go module, and a process of it."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.eventually import wait_until
from tests.operators.programs.go_module import GoModule
from tests.ports import free_port

_MODULE = GoModule(
    "github.com/prometheus/prometheus", "v0.315.0", flags=("-tags", "remove_all_sd,enable_kubernetes_sd")
)
_STOP_S = 60


def build_or_skip() -> Path:
    """Return the program. With empty caches of Go, its build takes 400 s of CPU time and 300 MB of downloads."""
    return _MODULE.build_or_skip("./cmd/prometheus")


class Prometheus:
    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=10):
                return True
        except OSError:
            return False

    def query(self, expression: str) -> list[Any]:
        """Return the series that an expression yields now."""
        result: list[Any] = self._get("query", query=expression)["result"]
        return result

    def unhealthy_targets(self) -> dict[str, str]:
        """Return the last errors of the targets that are not up, by URL."""
        targets = self._get("targets", state="active")["activeTargets"]
        return {row["scrapeUrl"]: row["lastError"] or row["health"] for row in targets if row["health"] != "up"}

    def _get(self, path: str, **query: str) -> Any:
        url = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=60) as response:
            return json.load(response)["data"]


@contextmanager
def running_prometheus(program: Path, directory: Path) -> Iterator[Prometheus]:
    """Run Prometheus with the configuration prometheus.yml of a directory."""
    port, log_file = free_port(), directory / "log"
    command = [
        str(program),
        f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    with log_file.open("wb") as log:
        process = subprocess.Popen(command, cwd=directory, stdout=log, stderr=log)
    try:
        prometheus = Prometheus(port)
        wait_until(prometheus.is_ready, describe=lambda: log_file.read_text()[-2000:])
        yield prometheus
    finally:
        process.terminate()
        process.wait(_STOP_S)
