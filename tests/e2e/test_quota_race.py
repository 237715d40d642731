"""Clients compete for a quota while their server is killed: the quota is never exceeded, and in the end it is used
up."""

import json
import os
import signal
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Sampan
from tests.eventually import wait_until
from tests.ports import free_port

CLIENTS, ALLOWED = 50, 20
TOKEN = "race"
PATH = "/api/v1/namespaces/default"
CONTROLLERS = "serviceaccount-controller,resourcequota-controller"


@pytest.fixture
def sampan(tmp_path: Path) -> Iterator[Sampan]:
    command = Sampan(tmp_path)
    yield command
    command.run("down")


class Server:
    def __init__(self, sampan: Sampan) -> None:
        self._sampan = sampan
        self._port = free_port()
        self._tokens = sampan.home / "tokens.csv"
        self._tokens.write_text(f'{TOKEN},admin,1,"system:masters"\n')
        self._tls = ssl.create_default_context()
        self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE

    def start(self) -> None:
        where = ("--bind-address", "127.0.0.1", "--secure-port", str(self._port))
        who = ("--token-auth-file", str(self._tokens), "--controllers", CONTROLLERS)
        self._sampan("up", "-d", "--components", "apiserver,controllers", *where, *who)

    def kill(self) -> None:
        pid = self._sampan.read_running_file()["pid"]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{pid}").exists())

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"https://127.0.0.1:{self._port}{PATH}/{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=60) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, json.load(refused)

    def create_pod(self, name: str) -> int:
        spec = {"automountServiceAccountToken": False, "containers": [{"name": "c", "image": "x"}]}
        return self.call("POST", "pods", {"metadata": {"name": name}, "spec": spec})[0]

    def pods(self) -> int:
        return len(self.call("GET", "pods")[1]["items"])

    def get_usage(self) -> Any:
        return self.call("GET", "resourcequotas/q")[1].get("status", {}).get("used")


def test_quota_is_not_exceeded_when_the_server_is_killed(sampan: Sampan) -> None:
    server = Server(sampan)
    server.start()
    server.call("POST", "resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": str(ALLOWED)}}})
    wait_until(lambda: server.get_usage() == {"pods": "0"})
    wait_until(lambda: server.call("GET", "serviceaccounts/default")[0] == 200)
    responses: list[int] = []
    threads = [threading.Thread(target=_client, args=(server, f"p{index}", responses)) for index in range(CLIENTS)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(responses) >= ALLOWED // 4)
    server.kill()
    server.start()
    for thread in threads:
        thread.join()
    assert server.pods() <= ALLOWED
    names = (f"later{index}" for index in range(10_000))

    def is_full() -> bool:
        server.create_pod(next(names))
        assert server.pods() <= ALLOWED
        return server.pods() == ALLOWED

    wait_until(is_full)
    wait_until(lambda: server.get_usage() == {"pods": str(ALLOWED)})
    assert server.create_pod("one-more") == 403


def _client(server: Server, name: str, responses: list[int]) -> None:
    """Retry until the server responds."""
    ignore = (OSError, HTTPException, ValueError)
    responses.append(wait_until(lambda: server.create_pod(name), timeout_s=600, poll_s=0.02, ignore=ignore))
