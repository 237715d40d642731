"""Objects that are stored and not acted on: whoever creates one is told so."""

import asyncio
import logging
from typing import Any

import pytest

from sampan.apiserver.unserved import UNSERVED, message_for
from sampan.testing import Cluster
from tests.apiserver.http.wire import Wire

REGISTRATION = "/apis/apiregistration.k8s.io/v1/apiservices"
SERVICE: dict[str, Any] = {
    "metadata": {"name": "v1.wardle.example.com"},
    "spec": {
        "group": "wardle.example.com",
        "version": "v1",
        "groupPriorityMinimum": 1000,
        "versionPriority": 10,
        "service": {"name": "s", "namespace": "default"},
        "insecureSkipTLSVerify": True,
    },
}
CREATED: list[tuple[str, str, dict[str, Any]]] = [
    ("APIService", REGISTRATION, SERVICE),
]


def port_of(cluster: Cluster) -> int:
    return int(cluster.insecure_url.rpartition(":")[2])


def test_who_creates_one_is_warned(caplog: pytest.LogCaptureFixture) -> None:
    async def main(port: int) -> None:
        async with asyncio.timeout(60), Wire(port) as wire:
            for kind, path, value in CREATED:
                answer = await wire.ask("POST", path, value)
                assert answer.code == 201, answer.text
                row = next(row for (_, name), row in UNSERVED.items() if name == kind)
                assert answer.headers["warning"] == f'299 - "{message_for(kind, row)}"'

    with caplog.at_level(logging.WARNING, "sampan.apiserver.unserved"), Cluster(insecure=True, controllers=()) as made:
        asyncio.run(main(port_of(made)))
    logged = [record.getMessage() for record in caplog.records if record.name == "sampan.apiserver.unserved"]
    assert [text.partition(" ")[0] for text in logged] == [kind for kind, _, _ in CREATED]


def test_what_this_server_serves_itself_needs_no_warning() -> None:
    async def main(port: int) -> None:
        local = {"metadata": SERVICE["metadata"], "spec": {**SERVICE["spec"], "service": None}}
        del local["spec"]["insecureSkipTLSVerify"]
        async with asyncio.timeout(60), Wire(port) as wire:
            for path, value in [(REGISTRATION, local), ("/api/v1/namespaces", {"metadata": {"name": "n"}})]:
                answer = await wire.ask("POST", path, value)
                assert (answer.code, answer.headers.get("warning")) == (201, None)

    with Cluster(insecure=True, controllers=()) as made:
        asyncio.run(main(port_of(made)))
