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
_MS_BIND, _MNT_DETACH = 0x1000, 2
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
        return call() if self.path is None else run_in_network(self.path, call)

    def executor(self, name: str) -> ThreadPoolExecutor:
        """Return an executor with a single thread, which works inside the namespace."""
        return ThreadPoolExecutor(max_workers=1, thread_name_prefix=name, initializer=self._enter)

    def socket(self, family: socket.AddressFamily, kind: socket.SocketKind, protocol: int = 0) -> socket.socket:
        """Open a socket inside the namespace."""
        return self.run(lambda: socket.socket(family, kind, protocol))

    def _enter(self) -> None:
        if self.path is not None:
            enter_network(self.path)


def create_network(path: Path) -> None:
    """Create a network namespace, which exists as long as it is mounted at that path. Its loopback interface is up.
    Raise OSError if this process may not do so."""

    def create() -> None:
        _check(_libc().unshare(_CLONE_NEWNET), "create a network namespace")
        bring_up_loopback()
        own = f"/proc/self/task/{threading.get_native_id()}/ns/net"
        _check(_libc().mount(own.encode(), os.fsencode(path), None, _MS_BIND, None), f"mount {path}")

    path.touch(mode=0o600)
    _run_in_thread(create, f"creation of network namespace {path.name}")


def check_new_network() -> None:
    """Raise OSError if this process may not create network namespaces."""
    _run_in_thread(lambda: _check(_libc().unshare(_CLONE_NEWNET), "create a network namespace"), "check of namespaces")


def remove_network(path: Path) -> None:
    """Unmount a network namespace, if there is one, and remove the file at which it is mounted. The namespace itself
    ends when nothing uses it any more."""
    while is_network(path):
        _check(_libc().umount2(os.fsencode(path), _MNT_DETACH), f"unmount {path}")
    path.unlink(missing_ok=True)


def is_network(path: Path) -> bool:
    """Whether a network namespace is mounted at that path."""
    try:
        return os.stat(path).st_dev == os.stat("/proc/self/ns/net").st_dev
    except OSError:
        return False


def run_in_network(namespace: Path, call: Callable[[], T]) -> T:
    """Call a function inside a network namespace. It runs in a new thread, because setns() changes the namespace of the
    calling thread only."""

    def work() -> T:
        enter_network(namespace)
        return call()

    return _run_in_thread(work, f"in network namespace {namespace.name}")


def enter_network(namespace: Path) -> None:
    """Move the calling thread into a network namespace."""
    file = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc().setns(file, _CLONE_NEWNET), f"enter {namespace}")
    finally:
        os.close(file)


def _run_in_thread(call: Callable[[], T], name: str) -> T:
    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, name=name)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, subject: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{subject}: {os.strerror(code)}")


def bring_up_loopback() -> None:
    """Bring up the loopback interface of the current network namespace."""
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)) as link:
        request = struct.pack("16sH14s", b"lo", 0, b"")
        interface_flags = fcntl.ioctl(link, _SIOCGIFFLAGS, request)
        flags = struct.unpack("16sH14s", interface_flags)[1] | _IFF_UP
        fcntl.ioctl(link, _SIOCSIFFLAGS, struct.pack("16sH14s", b"lo", flags, b""))
