"""Restart the server under an open page: it continues where it was, or asks for a log-in if the server has forgotten
the session."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Sampan
from tests.e2e.dashboard.browser import Page
from tests.e2e.dashboard.conftest import Dashboard
from tests.e2e.dashboard.steps import EDITOR, editor_text
from tests.eventually import wait_until
from tests.ports import free_port

NAME = "harbor"
MAPS = f"c/{NAME}/~v1~configmaps?namespace=default"


class RestartableServer:
    """A cluster of `sampan up` that is stopped and started again on the same port."""

    def __init__(self, home: Path) -> None:
        self.sampan, self.port = Sampan(home), free_port()

    @contextmanager
    def running(self) -> Iterator[None]:
        port = ("--secure-port", str(self.port), "--bind-address", "127.0.0.1")
        words = ("up", "--name", NAME, "--components", "apiserver,controllers", *port)
        note = self.sampan.directory(NAME) / "running.json"
        with self.sampan.running_command(*words):
            wait_until(note.exists, timeout_s=60)
            yield
        wait_until(lambda: not note.exists())

    @property
    def sessions(self) -> Path:
        return self.sampan.directory(NAME) / "dashboard-sessions.json"

    def log_in_link(self) -> str:
        command = [sys.executable, "-m", "sampan", "dashboard", "--name", NAME, "--no-browser"]
        result = subprocess.run(command, env=self.sampan.environment, stdout=subprocess.PIPE, text=True, check=True)
        return result.stdout.splitlines()[0].removeprefix("dashboard: ")

    def create_map(self, name: str) -> None:
        manifest: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        text = json.dumps(manifest)
        done = self.sampan.run("kubectl", "--name", NAME, "create", "-f", "-", stdin=text)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def server(tmp_path: Path) -> RestartableServer:
    return RestartableServer(tmp_path)


@pytest.fixture
def page(dashboard: Dashboard) -> Iterator[Page]:
    page = dashboard.browser.page()
    yield page
    page.close()


def test_an_open_page_continues_after_a_restart(server: RestartableServer, page: Page) -> None:
    with server.running():
        page.open(server.log_in_link())
        page.wait_for(f"location.pathname === '/ui/c/{NAME}/overview'")
        page.wait_for(f"document.querySelector('.cluster-name')?.innerText === '{NAME}'")
        page.open(f"https://127.0.0.1:{server.port}/ui/{MAPS}")
        page.wait_for_text("kube-root-ca.crt")
        page.evaluate("window.isSamePage = true")
    page.wait_for_text("Connection lost")
    assert server.sessions.stat().st_mode & 0o777 == 0o600
    with server.running():
        page.wait_for("!document.querySelector('.banner')")
        server.create_map("after-the-restart")
        page.wait_for("document.querySelector('main').innerText.match(/1 new|after-the-restart/)")
        assert page.evaluate("window.isSamePage")
        assert not page.evaluate("document.querySelector('input[type=password]')")


def test_unsaved_text_is_there_after_a_restart(server: RestartableServer, page: Page) -> None:
    with server.running():
        page.open(server.log_in_link())
        page.wait_for("document.querySelector('.overview')")
        server.create_map("edited")
        page.open(f"https://127.0.0.1:{server.port}/ui/c/{NAME}/~v1~configmaps/default/edited/edit")
        editor_text(page)
        page.evaluate(f"{EDITOR}.focus()")
        page.press("Ctrl+End")
        page.type_text("# typed before")
    page.wait_for_text("Connection lost")
    with server.running():
        page.wait_for("!document.querySelector('.banner')")
        page.type_text(" and after")
        wait_until(lambda: "# typed before and after" in editor_text(page).replace("\xa0", " "))


def test_an_open_page_asks_for_a_log_in_if_the_session_is_gone(server: RestartableServer, page: Page) -> None:
    with server.running():
        page.open(server.log_in_link())
        page.wait_for("document.querySelector('.overview')")
        page.open(f"https://127.0.0.1:{server.port}/ui/{MAPS}")
        page.wait_for_text("kube-root-ca.crt")
    server.sessions.unlink()
    with server.running():
        page.wait_for("document.querySelector('input[type=password]')")
        page.open(server.log_in_link())
        page.wait_for("document.querySelector('.overview')")


def test_log_out_is_not_undone_by_a_restart(server: RestartableServer, page: Page) -> None:
    with server.running():
        page.open(server.log_in_link())
        page.wait_for("document.querySelector('.overview')")
        page.click("button[aria-label='Account and settings']")
        page.click("dialog button", "Log out")
        page.wait_for_text("You are logged out.")
    with server.running():
        page.open(f"https://127.0.0.1:{server.port}/ui/")
        page.wait_for("document.querySelector('input[type=password]')")
