"""Sockets of the network outside of the namespace of a process."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sampan.machinery.linux.network_namespace import NetworkNamespace, check_new_network
from sampan.machinery.linux.outer_network import OuterNetwork, OuterSocketServer
from tests.ports import free_port


def test_sockets_of_another_network() -> None:
    """A socket belongs to the network namespace of the process that opened it, not to that of the one that uses it."""
    try:
        check_new_network()
    except OSError:
        pytest.skip("may not create network namespaces")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    script = "import os; os.write(1, b'x'); os.read(0, 1)"
    with (
        ours,
        subprocess.Popen(
            ["unshare", "--net", sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as other,
    ):
        assert other.stdout is not None
        other.stdout.read(1)
        space = NetworkNamespace(Path(f"/proc/{other.pid}/ns/net"))
        outer, number = OuterNetwork(theirs), free_port()

        def opened() -> socket.socket:
            thread = threading.Thread(target=OuterSocketServer(ours).serve_one)
            thread.start()
            return space.run(lambda: outer.socket(socket.AF_INET, socket.SOCK_STREAM))

        with opened() as listener:
            listener.bind(("127.0.0.1", number))
            listener.listen()
            with socket.create_connection(("127.0.0.1", number), timeout=10):
                pass
        theirs.close()
        assert OuterSocketServer(ours).serve_one() is False
        other.kill()
