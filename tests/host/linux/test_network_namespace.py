from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sampan.host.linux.network_namespace import NetworkNamespace, bring_up_loopback
from tests.network.pods.lab import Lab, needs_network

pytestmark = needs_network


@pytest.fixture
def namespace(tmp_path: Path) -> Iterator[NetworkNamespace]:
    lab = Lab(tmp_path)
    yield NetworkNamespace(lab.outside)
    lab.close()


def _namespace_of_this_thread() -> str:
    return os.readlink("/proc/thread-self/ns/net")


def test_namespace_without_a_path_is_that_of_the_process() -> None:
    own = NetworkNamespace()
    assert own.run(_namespace_of_this_thread) == _namespace_of_this_thread()
    with own.executor("own") as executor:
        assert executor.submit(_namespace_of_this_thread).result() == _namespace_of_this_thread()


def test_calls_threads_and_programs_work_inside_the_namespace(namespace: NetworkNamespace) -> None:
    inside = namespace.run(_namespace_of_this_thread)
    assert inside != _namespace_of_this_thread()
    with namespace.executor("inside") as executor:
        assert executor.submit(_namespace_of_this_thread).result() == inside
        link = executor.submit(subprocess.check_output, ["readlink", "/proc/self/ns/net"]).result()
    assert link.decode().strip() == inside


def test_a_socket_stays_in_the_namespace_in_which_it_was_opened(namespace: NetworkNamespace) -> None:
    namespace.run(bring_up_loopback)
    with namespace.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        with namespace.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
            client.connect(server.getsockname())
        with socket.socket() as outsider, pytest.raises(ConnectionRefusedError):
            outsider.connect(server.getsockname())


def test_a_namespace_that_does_not_exist_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        NetworkNamespace(tmp_path / "nowhere").run(os.getpid)
