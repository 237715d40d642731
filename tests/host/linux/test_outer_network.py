"""Sockets of the network namespace outside that of a process."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sampan.host.linux.network_namespace import NetworkNamespace, check_new_network
from sampan.host.linux.outer_network import OuterNetwork, OuterSocketServer
from tests.ports import free_port


def test_socket_belongs_to_the_outer_network_namespace() -> None:
    """A socket belongs to the network namespace of the process that opened it, not of the process that uses it."""
    try:
        check_new_network()
    except OSError:
        pytest.skip("may not create network namespaces")
    server_end, client_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    script = "import os; os.write(1, b'x'); os.read(0, 1)"
    with (
        server_end,
        subprocess.Popen(
            ["unshare", "--net", sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as other,
    ):
        assert other.stdout is not None
        other.stdout.read(1)
        namespace = NetworkNamespace(Path(f"/proc/{other.pid}/ns/net"))
        outer, port = OuterNetwork(client_end), free_port()

        def open_socket() -> socket.socket:
            thread = threading.Thread(target=OuterSocketServer(server_end).serve_one)
            thread.start()
            return namespace.run(lambda: outer.socket(socket.AF_INET, socket.SOCK_STREAM))

        with open_socket() as listener:
            listener.bind(("127.0.0.1", port))
            listener.listen()
            with socket.create_connection(("127.0.0.1", port), timeout=10):
                pass
        client_end.close()
        assert OuterSocketServer(server_end).serve_one() is False
        other.kill()
