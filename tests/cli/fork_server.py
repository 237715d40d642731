"""A process that has imported `sampan`, and forks a process for each command that a test runs.

Imports take nearly all of the CPU time of a short command. A forked command is a process of its own all the same, with
arguments, environment, directory and standard streams of its own.
"""

from __future__ import annotations

import atexit
import ctypes
import dataclasses
import gc
import importlib
import json
import logging
import os
import pkgutil
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn

import sampan
from sampan.host.linux.network_namespace import run_in_network

_ROOT = Path(__file__).parents[2]
_STREAMS = 3
_CAPABILITY_VERSION_3 = 0x20080522
_NETWORK = Path(f"/proc/self/fd/{os.open('/proc/thread-self/ns/net', os.O_RDONLY | os.O_CLOEXEC)}")
"""The network namespace of the tests. The first command may be started by a test that has moved its thread into another
one, in which the server and all later commands would stay."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Attributes of the process of a command besides its arguments and standard streams."""

    environment: Mapping[str, str]
    directory: str
    network: str = ""
    """The path of a network namespace other than that of the tests."""
    dropped_capabilities: Sequence[int] = ()


class ForkedProcess:
    """A `sampan` command that runs in a fork of the server, with some of the methods of `subprocess.Popen`."""

    def __init__(self, words: Sequence[str], surroundings: Surroundings, streams: Sequence[IO[Any]]) -> None:
        self.returncode: int | None = None
        self._connection, other = socket.socketpair()
        with other:
            socket.send_fds(_server(), [b"x"], [other.fileno(), *(stream.fileno() for stream in streams)])
        request = json.dumps([list(words), dataclasses.asdict(surroundings)])
        self._connection.sendall(request.encode() + b"\n")
        self.pid = self._read_number()

    def wait(self, timeout_s: float) -> int:
        """Return the exit code. Kill the process and raise TimeoutError if it does not exit in time."""
        if self.returncode is None:
            self._connection.settimeout(timeout_s)
            try:
                self.returncode = self._read_number()
            except TimeoutError:
                self.kill()
                raise
            self._connection.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has exited."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _read_number(self) -> int:
        line = b""
        while not line.endswith(b"\n"):
            byte = self._connection.recv(1)
            if not byte:
                raise EOFError("the fork server has exited")
            line += byte
        return int(line)


class ForkedServer(ForkedProcess):
    """A command that runs until it is stopped. Its output is read while it runs."""

    def __init__(self, words: Sequence[str], surroundings: Surroundings) -> None:
        read_end, write_end = os.pipe()
        self.stdout = os.fdopen(read_end)
        """The standard output and the standard error of the process."""
        with open(os.devnull) as nothing, os.fdopen(write_end, "w") as output:
            super().__init__(words, surroundings, (nothing, output, output))

    def communicate(self, timeout_s: float) -> str:
        """Wait until the process has exited, and return the rest of its output, which must fit into a pipe."""
        self.wait(timeout_s)
        return self.stdout.read()


_starting = threading.Lock()


def _server() -> socket.socket:
    with _starting:
        return _start()


@cache
def _start() -> socket.socket:
    """Start the server, and return the socket to which requests are sent. The server is not a child of this process,
    and exits when this process has exited."""
    control, other = socket.socketpair()
    atexit.register(control.close)
    command = [sys.executable, "-m", __name__, str(other.fileno())]

    def run() -> None:
        nothing = subprocess.DEVNULL
        subprocess.run(command, cwd=_ROOT, pass_fds=[other.fileno()], stdin=nothing, stdout=nothing, check=True)

    with other:
        if os.path.samefile(_NETWORK, "/proc/thread-self/ns/net"):
            run()
        else:
            run_in_network(_NETWORK, run)
    return control


class _ForkServer:
    """Forks a process for each request, and sends its process id and later its exit code to the test."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._exits, self._waker = socket.socketpair()
        """A byte arrives when a child has exited."""
        self._waker.setblocking(False)
        self._connections: dict[int, socket.socket] = {}

    def serve(self) -> tuple[list[str], Surroundings] | None:
        """Return the request in a forked process, and None in the server after the last request."""
        signal.set_wakeup_fd(self._waker.fileno())
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        while True:
            readable, _, _ = select.select([self._control, self._exits], [], [])
            if self._exits in readable:
                self._reap()
            if self._control not in readable:
                continue
            data, descriptors, _, _ = socket.recv_fds(self._control, 1, 1 + _STREAMS)
            if not data:
                return None
            connection, *streams = socket.socket(fileno=descriptors[0]), *descriptors[1:]
            if (pid := os.fork()) == 0:
                return self._become_command(connection, streams)
            for descriptor in streams:
                os.close(descriptor)
            self._connections[pid] = connection
            _send(connection, pid)

    def _reap(self) -> None:
        self._exits.recv(4096)
        with suppress(ChildProcessError):
            while (result := os.waitpid(-1, os.WNOHANG))[0]:
                with self._connections.pop(result[0]) as connection:
                    _send(connection, os.waitstatus_to_exitcode(result[1]))

    def _become_command(self, connection: socket.socket, streams: Sequence[int]) -> tuple[list[str], Surroundings]:
        """Close what belongs to the server, take the standard streams, and return the request."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for other in (self._control, self._exits, self._waker, *self._connections.values()):
            other.close()
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
            os.close(descriptor)
        with connection, connection.makefile("rb") as file:
            words, surroundings = json.loads(file.readline())
        return words, Surroundings(**surroundings)


def _send(connection: socket.socket, number: int) -> None:
    with suppress(OSError):  # the test does not wait for the process any more
        connection.sendall(b"%d\n" % number)


def _run(words: Sequence[str], surroundings: Surroundings) -> NoReturn:
    """Run a command. Exit without freeing the imported modules one by one, which takes longer than most commands."""
    from sampan.cli.main import main

    _enter(surroundings)
    sys.argv = ["sampan", *words]
    code: Any = 0
    try:
        main()
    except SystemExit as error:
        code = error.code
    except BaseException:
        traceback.print_exc()
        code = 1
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


def _enter(surroundings: Surroundings) -> None:
    from sampan.host.linux.network_namespace import enter_network

    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(surroundings.environment)
    tempfile.tempdir = None  # forget the directory of the earlier environment
    os.chdir(surroundings.directory)
    if surroundings.network:
        enter_network(Path(surroundings.network))
    if surroundings.dropped_capabilities:
        _drop(sum(1 << number for number in surroundings.dropped_capabilities))


def _drop(capabilities: int) -> None:
    """Remove some of the first 32 capabilities from this process."""
    libc, header, sets = ctypes.CDLL(None, use_errno=True), struct.pack("Ii", _CAPABILITY_VERSION_3, 0), bytearray(24)
    buffer = (ctypes.c_char * len(sets)).from_buffer(sets)
    assert libc.capget(header, buffer) == 0
    effective, permitted, inheritable, *others = struct.unpack("6I", sets)
    kept = [mask & ~capabilities for mask in (effective, permitted, inheritable)]
    sets[:] = struct.pack("6I", *kept, *others)
    assert libc.capset(header, buffer) == 0


def _import_everything() -> None:
    for module in pkgutil.walk_packages(sampan.__path__, "sampan."):
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
