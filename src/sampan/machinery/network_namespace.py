"""Work inside a network namespace other than the one of this process."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

_CLONE_NEWNET = 0x40000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NetworkNamespace:
    """The network namespace in which a node works: the one at `path`, or the one of this process if there is no path.

    A socket belongs to the namespace of the thread that opens it and stays there, so that the event loop can use
    sockets of any namespace. A program that a thread starts runs in the namespace of that thread.
    """

    path: Path | None = None

    def run(self, call: Callable[[], T]) -> T:
        """Call a function inside the namespace. The call blocks."""
        return call() if self.path is None else in_network(self.path, call)

    def executor(self, name: str) -> ThreadPoolExecutor:
        """Return an executor with a single thread, which works inside the namespace."""
        return ThreadPoolExecutor(max_workers=1, thread_name_prefix=name, initializer=self._enter)

    def socket(self, family: socket.AddressFamily, kind: socket.SocketKind, protocol: int = 0) -> socket.socket:
        """Open a socket inside the namespace."""
        return self.run(lambda: socket.socket(family, kind, protocol))

    def _enter(self) -> None:
        if self.path is not None:
            enter_network(self.path)


def in_network(namespace: Path, call: Callable[[], T]) -> T:
    """Call a function inside a network namespace. It runs in a new thread, because setns() changes the namespace of the
    calling thread only."""
    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            enter_network(namespace)
            results.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, name=f"in network namespace {namespace.name}")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def enter_network(namespace: Path) -> None:
    """Move the calling thread into a network namespace."""
    file = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(file, _CLONE_NEWNET) != 0:
            code = ctypes.get_errno()
            raise OSError(code, f"enter {namespace}: {os.strerror(code)}")
    finally:
        os.close(file)


def loopback_up() -> None:
    """Bring up the loopback interface of the current network namespace."""
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)) as link:
        request = struct.pack("16sH14s", b"lo", 0, b"")
        interface_flags = fcntl.ioctl(link, _SIOCGIFFLAGS, request)
        flags = struct.unpack("16sH14s", interface_flags)[1] | _IFF_UP
        fcntl.ioctl(link, _SIOCSIFFLAGS, struct.pack("16sH14s", b"lo", flags, b""))
