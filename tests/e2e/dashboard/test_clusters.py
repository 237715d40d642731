"""`sampan dashboard` with a kubeconfig of two clusters: log in with the printed address, and switch between the
clusters."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from sampan.testing import Cluster
from tests.e2e.dashboard.conftest import Dashboard


@pytest.fixture
def second(dashboard: Dashboard) -> Iterator[Dashboard]:
    with Cluster(components=("apiserver",)) as cluster:
        yield Dashboard(cluster=cluster, browser=dashboard.browser)


def joint_kubeconfig(path: Path, clusters: dict[str, Cluster]) -> Path:
    """Write a kubeconfig with one context for each cluster, and return its path."""
    lists: dict[str, list[object]] = {"clusters": [], "users": [], "contexts": []}
    for name, cluster in clusters.items():
        config = yaml.safe_load(cluster.kubeconfig.read_text())
        for kind in ("clusters", "users"):
            lists[kind].append({**config[kind][0], "name": name})
        lists["contexts"].append({"name": name, "context": {"cluster": name, "user": name}})
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **lists}))
    return path


@contextmanager
def dashboard_command(*words: str) -> Iterator[str]:
    """Run `sampan dashboard` without a browser, and return the address that it prints."""
    command = [sys.executable, "-m", "sampan", "dashboard", "--no-browser", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()
        assert process.stdout.read() == "Ctrl-C stops it\n"
    assert process.returncode == 0


def test_switch_between_clusters(dashboard: Dashboard, second: Dashboard, tmp_path: Path) -> None:
    maps = "/api/v1/namespaces/default/configmaps"
    for name, side in (("in-first", dashboard), ("in-second", second)):
        side.api("POST", maps, {"metadata": {"name": name}, "data": {"k": "v"}})
    kubeconfig = joint_kubeconfig(tmp_path / "config", {"first": dashboard.cluster, "second": second.cluster})
    page = dashboard.browser.page()
    with dashboard_command("--kubeconfig", str(kubeconfig), "--context", "first", "--context", "second") as address:
        page.open(address)
        page.wait_for("location.pathname === '/ui/c/first/overview'")
        page.open(f"{address.partition('/ui/')[0]}/ui/c/first/~v1~configmaps?namespace=default")
        page.wait_for_text("in-first")
        assert "in-second" not in page.text()
        page.choose("select", "second")
        page.wait_for("location.pathname === '/ui/c/second/~v1~configmaps'")
        page.wait_for_text("in-second")
        assert "in-first" not in page.text()
        assert page.errors() == []
    page.close()
