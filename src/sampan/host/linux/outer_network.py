"""The network of the machine, for a cluster that runs in a network namespace without privileges outside of it.

A socket belongs to the network namespace in which it was opened. A process that stays in the network of the machine
opens sockets and passes them to the cluster (`OuterSocketServer`), which binds and uses them like its own
(`OuterNetwork`).
"""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sampan.host.linux.network_namespace import NetworkNamespace

T = TypeVar("T")

_REQUEST = struct.Struct("=iii")
"""A request for a socket: its address family, type and protocol."""
_RESPONSE = struct.Struct("=i")
"""The errno of the failure, or 0 if a socket comes with the response."""


class OuterNetwork(NetworkNamespace):
    """Sockets in the network of the machine. Nothing else can be done there."""

    __slots__ = ("_connection", "_lock")

    def __init__(self, connection: socket.socket) -> None:
        super().__init__()
        object.__setattr__(self, "_connection", connection)
        object.__setattr__(self, "_lock", threading.Lock())

    _connection: socket.socket
    _lock: threading.Lock

    def run(self, call: Callable[[], T]) -> T:
        raise PermissionError("this process cannot enter the network of the machine")

    def executor(self, name: str) -> ThreadPoolExecutor:
        raise PermissionError("this process cannot enter the network of the machine")

    def socket(self, family: socket.AddressFamily, kind: socket.SocketKind, protocol: int = 0) -> socket.socket:
        """Open a socket in the network of the machine. Raise OSError."""
        with self._lock:
            self._connection.send(_REQUEST.pack(family, kind, protocol))
            data, descriptors, _, _ = socket.recv_fds(self._connection, _RESPONSE.size, 1)
        if not data:
            raise ConnectionError("the process in the network of the machine has exited")
        code = _RESPONSE.unpack(data)[0]
        if code:
            raise OSError(code, os.strerror(code))
        os.set_inheritable(descriptors[0], False)
        return socket.socket(fileno=descriptors[0])


class OuterSocketServer:
    """Opens sockets in the network namespace of this process for the process at the other end of a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def fileno(self) -> int:
        return self._connection.fileno()

    def serve_one(self) -> bool:
        """Answer one request. Return False if the other process has closed the connection."""
        data = self._connection.recv(_REQUEST.size)
        if len(data) != _REQUEST.size:
            return False
        try:
            with socket.socket(*_REQUEST.unpack(data)) as opened:
                socket.send_fds(self._connection, [_RESPONSE.pack(0)], [opened.fileno()])
        except OSError as error:
            self._connection.send(_RESPONSE.pack(error.errno or 1))
        return True
