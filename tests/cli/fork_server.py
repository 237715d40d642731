"""A process that has imported `sampan`, and forks one process for each command that a test runs.

Imports take most of the CPU time of a short command. A forked command is a process of its own all the same, with
arguments, environment, directory and standard streams of its own.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

import sampan

_ROOT = Path(__file__).parents[2]
_STREAMS = 3


class ForkedProcess:
    """A `sampan` command that runs in a fork of the server."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        environment: Mapping[str, str],
        streams: Sequence[IO[Any]],
        network: Path | None = None,
    ) -> None:
        """`streams` are the standard streams, `network` is the network namespace, if not that of the tests."""
        self._connection, other = socket.socketpair()
        request = [list(words), dict(environment), os.getcwd(), str(network or "")]
        with other:
            socket.send_fds(_server(), [b"x"], [other.fileno(), *(stream.fileno() for stream in streams)])
        self._connection.sendall(json.dumps(request).encode() + b"\n")
        self._numbers = self._connection.makefile("rb")
        self.pid = int(self._numbers.readline())

    def wait(self, timeout_s: float) -> int:
        """Return the exit code. Kill the process and raise TimeoutError if it does not exit in time."""
        self._connection.settimeout(timeout_s)
        try:
            return int(self._numbers.readline())
        except TimeoutError:
            os.kill(self.pid, signal.SIGKILL)
            raise
        finally:
            self._numbers.close()
            self._connection.close()


_starting = threading.Lock()


def _server() -> socket.socket:
    with _starting:
        return _start()


@cache
def _start() -> socket.socket:
    """Start the server, and return the socket to which requests are sent. The server is not a child of this process,
    and exits when this process has exited."""
    control, other = socket.socketpair()
    with other:
        command = [sys.executable, "-m", __name__, str(other.fileno())]
        subprocess.run(
            command, cwd=_ROOT, pass_fds=[other.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True
        )
    atexit.register(control.close)
    return control


class _ForkServer:
    """Forks a process for each request, and sends its process id and later its exit code to the test."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ)
        self._connections: dict[int, socket.socket] = {}

    def serve(self) -> list[Any] | None:
        """Return the request in a forked process, and None in the server when there will be no more requests."""
        while True:
            for key, _ in self._selector.select():
                if key.data is not None:
                    self._reap(key.fd, key.data)
                    continue
                data, descriptors, _, _ = socket.recv_fds(self._control, 1, 1 + _STREAMS)
                if not data:
                    return None
                connection = socket.socket(fileno=descriptors[0])
                if (pid := os.fork()) == 0:
                    return self._become_command(connection, descriptors[1:])
                self._watch(pid, connection, descriptors[1:])

    def _watch(self, pid: int, connection: socket.socket, streams: Sequence[int]) -> None:
        for descriptor in streams:
            os.close(descriptor)
        _send(connection, pid)
        self._connections[pid] = connection
        self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, pid)

    def _reap(self, descriptor: int, pid: int) -> None:
        self._selector.unregister(descriptor)
        os.close(descriptor)
        _, status = os.waitpid(pid, 0)
        with self._connections.pop(pid) as connection:
            _send(connection, os.waitstatus_to_exitcode(status))

    def _become_command(self, connection: socket.socket, streams: Sequence[int]) -> list[Any]:
        """Close what belongs to the server, and return the request."""
        for key in list(self._selector.get_map().values()):
            os.close(key.fd)
        self._selector.close()
        for other in self._connections.values():
            other.close()
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
            os.close(descriptor)
        with connection, connection.makefile("rb") as file:
            request: list[Any] = json.loads(file.readline())
            return request


def _send(connection: socket.socket, number: int) -> None:
    with suppress(OSError):  # the test does not wait for the process any more
        connection.sendall(b"%d\n" % number)


def _run(words: Sequence[str], environment: Mapping[str, str], directory: str, network: str) -> None:
    from sampan.cli.main import main
    from sampan.machinery.linux.network_namespace import enter_network

    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # the value of the earlier environment
    os.chdir(directory)
    if network:
        enter_network(Path(network))
    sys.argv = ["sampan", *words]
    main()


def _import_everything() -> None:
    for module in pkgutil.walk_packages(sampan.__path__, f"{sampan.__name__}."):
        if not module.name.startswith("sampan.testing") and not module.name.endswith("__main__"):
            with suppress(ImportError):  # an optional library is missing
                importlib.import_module(module.name)


def _main(descriptor: int) -> None:
    if os.fork():
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import_everything()
    gc.collect()
    gc.freeze()
    request = _ForkServer(socket.socket(fileno=descriptor)).serve()
    if request is not None:
        _run(*request)


if __name__ == "__main__":
    _main(int(sys.argv[1]))
