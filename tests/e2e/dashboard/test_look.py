"""Inspect real containers through the page: logs, terminal, debug containers, files, charts."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sampan.testing import Cluster
from tests.e2e.dashboard.browser import Page
from tests.e2e.dashboard.conftest import Dashboard
from tests.e2e.dashboard.steps import pods_of
from tests.eventually import wait_until

HOSTILE = "<img src=x onerror='window.hacked=1'>"
_SCRIPT = f"""
mkdir -p files && touch "files/{HOSTILE}" && echo contents > files/report.txt && ln -s report.txt files/latest
echo 'level=info msg="started"'; echo "ERROR {HOSTILE}"; exec sleep 3600
"""
IMAGE = "sampan.local/host"


@pytest.fixture(scope="module")
def real(dashboard: Dashboard) -> Iterator[Dashboard]:
    """A cluster whose containers are processes, with two pods of a Deployment."""
    with Cluster(nodes=1, runtime="process") as cluster:
        real = Dashboard(cluster=cluster, browser=dashboard.browser)
        wait_until(lambda: bool(real.api("GET", "/api/v1/namespaces/default/serviceaccounts")["items"]))
        labels = {"app": "app"}
        container = {"name": "main", "image": IMAGE, "command": ["sh", "-c", _SCRIPT]}
        spec: dict[str, Any] = {"terminationGracePeriodSeconds": 0, "containers": [container]}
        template = {"metadata": {"labels": labels}, "spec": spec}
        body = {
            "metadata": {"name": "app"},
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
        }
        real.api("POST", "/apis/apps/v1/namespaces/default/deployments", body)
        wait_until(lambda: len(pods_of(real, "default", "app")) == 2)
        yield real


@pytest.fixture(scope="module")
def pod(real: Dashboard) -> str:
    return pods_of(real, "default", "app")[0]


@pytest.fixture(scope="module")
def module_page(real: Dashboard) -> Iterator[Page]:
    page = real.open("c/sampan/overview", token=real.token("dashboard-admin", "cluster-admin"))
    yield page
    errors = page.errors()
    page.close()
    assert errors == []


@pytest.fixture
def page(module_page: Page, tmp_path: Path) -> Page:
    module_page.download_to(tmp_path)
    module_page.set_size(1280, 800)
    return module_page


def go_to(page: Page, path: str) -> None:
    page.evaluate(f"history.pushState(null, '', '/ui/c/sampan/{path}'), dispatchEvent(new PopStateEvent('popstate'))")


def test_logs_of_several_pods(page: Page, tmp_path: Path) -> None:
    go_to(page, "apps~v1~deployments/default/app/logs")
    page.wait_for("document.querySelectorAll('.log-line.error').length === 2")
    assert page.evaluate("new Set([...document.querySelectorAll('.log-source')].map((s) => s.innerText)).size") == 2
    page.wait_for_text("kubectl logs -l app=app -n default --all-containers -f")
    page.click("button", "Error")
    page.wait_for("!document.querySelector('.log-line.error') && document.querySelectorAll('.log-line').length === 2")
    assert "levels=" in page.path, "the address must carry the filter"
    page.click("button", "Error")
    page.fill("input[type=search]", "onerror")
    page.wait_for("document.querySelectorAll('.log-line').length === 2 && document.querySelector('.log-line mark')")
    page.click("button", "Download")
    wait_until(lambda: (tmp_path / "app.log").exists() and (tmp_path / "app.log").stat().st_size > 0)
    saved = (tmp_path / "app.log").read_text()
    assert saved.count(HOSTILE) == 2
    assert "started" not in saved, "the download must contain what is shown"
    assert not page.evaluate("window.hacked")


def test_terminal_follows_the_size_of_the_window(page: Page, pod: str) -> None:
    go_to(page, f"~v1~pods/default/{pod}/terminal")
    page.click("button[type=submit]:not(:disabled)", "Connect")
    _wait_for_shell(page)
    page.press(*"expr", "Space", *"111111", "Space", "+", "Space", *"111112", "Enter")
    page.wait_for("document.querySelector('.xterm-rows')?.innerText.includes('222223')")
    page.set_size(700, 600)
    page.wait_for("document.querySelector('.xterm-screen').clientWidth < 700")
    page.press(*"stty", "Space", *"size", "Enter")
    rows = "Math.round(document.querySelector('.xterm-rows').children.length)"
    page.wait_for(
        f"(() => {{ const match = /^(\\d+) (\\d+)\\s*$/m.exec(document.querySelector('.xterm-rows').innerText);"
        f" return match && Number(match[1]) === {rows} && Number(match[2]) < 100; }})()"
    )
    page.press(*"exit", "Enter")
    page.wait_for_text("exited with code 0")


def _wait_for_shell(page: Page) -> None:
    page.wait_for_text("connected")
    page.wait_for("document.activeElement?.classList.contains('xterm-helper-textarea')")


def test_debug_container(page: Page, real: Dashboard, pod: str) -> None:
    go_to(page, f"~v1~pods/default/{pod}/terminal")
    page.click(".terminal-tab summary", "Debug container")
    page.fill(".terminal-debug input", IMAGE)
    page.wait_for_text(f"--image={IMAGE} --target=main")
    page.click(".terminal-debug button:not(:disabled)", "Start debug container")
    _wait_for_shell(page)
    page.press(*"expr", "Space", *"4444", "Space", "+", "Space", *"1", "Enter")
    page.wait_for("document.querySelector('.xterm-rows')?.innerText.includes('4445')")
    spec = real.api("GET", f"/api/v1/namespaces/default/pods/{pod}")["spec"]
    assert [item["targetContainerName"] for item in spec["ephemeralContainers"]] == ["main"]


def test_files_are_listed_and_downloaded(page: Page, pod: str, tmp_path: Path) -> None:
    go_to(page, f"~v1~pods/default/{pod}/files?container=main&path=files")
    page.wait_for("document.querySelector('.files')?.innerText.includes('<img src=x')")
    page.click(".files button", "latest")
    wait_until(lambda: (tmp_path / "latest").exists() and (tmp_path / "latest").read_text() == "contents\n")
    page.click("button:not(:disabled)", "Download directory as tar")
    archive = tmp_path / "files.tar"
    wait_until(lambda: archive.exists() and archive.stat().st_size % 512 == 0 and archive.stat().st_size > 0)
    with tarfile.open(archive) as content:
        assert "./report.txt" in content.getnames()
    page.click("button[aria-label='Parent directory']")
    page.wait_for("new URLSearchParams(location.search).get('path') !== 'files'")
    page.evaluate("history.back()")
    page.wait_for("document.querySelector('.files')?.innerText.includes('report.txt')")
    assert not page.evaluate("window.hacked")


def test_charts_of_pods_and_nodes(page: Page, real: Dashboard, pod: str) -> None:
    node = real.api("GET", "/api/v1/nodes")["items"][0]["metadata"]["name"]
    for path in (f"~v1~pods/default/{pod}/charts", f"~v1~nodes/-/{node}/charts"):
        go_to(page, path)
        page.wait_for("document.querySelector('.charts')?.innerText.includes('Memory')")
        memory = "[...document.querySelectorAll('.chart')].find((chart) => chart.innerText.startsWith('Memory'))"
        page.wait_for(f"/[1-9].* [KMG]iB/.test({memory}?.querySelector('.chart-legend').innerText)")
