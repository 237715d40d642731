"""Ports for servers that cannot choose a free port themselves.

They lie below the range from which the system takes ports for outgoing connections, and each test worker has a part of
its own, so that no other process takes a port between its choice and its use. Workers of two runs at the same time
share a part, and start at different ports of it. A port is free if it can be bound on all addresses, for TCP and for
UDP.
"""

import errno
import itertools
import os
import socket
from collections.abc import Iterator

_FIRST, _PER_WORKER = 20_000, 1_500
_FIRST_NODE_PORT, _NODE_PORTS_PER_WORKER = 30_000, 10
"""The first 86 node ports of the default range, which the API server allocates by itself only after all others."""
_WORKERS = 8
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw") or 0) % _WORKERS
_offsets, _node_port_offsets = itertools.count(os.getpid() * 101), itertools.count(os.getpid())


def free_port() -> int:
    return _find_free(_FIRST, _PER_WORKER, _offsets)


def free_ports(count: int) -> list[int]:
    return [free_port() for _ in range(count)]


def free_node_port() -> int:
    """Return a port for a service that sets its node port."""
    return _find_free(_FIRST_NODE_PORT, _NODE_PORTS_PER_WORKER, _node_port_offsets)


def _find_free(first: int, count: int, offsets: Iterator[int]) -> int:
    for offset in itertools.islice(offsets, count):
        number = first + _worker * count + offset % count
        if _is_free(number):
            return number
    raise RuntimeError("no port is free")


def _is_free(number: int) -> bool:
    """Whether no socket of this machine uses the port, on any address of IPv4 or IPv6."""
    for family, host in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            try:
                with socket.socket(family, kind) as probe:
                    if family == socket.AF_INET6:
                        probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                    else:
                        # Connections that have ended (TIME_WAIT) do not keep a server from listening.
                        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(kind == socket.SOCK_STREAM))
                    probe.bind((host, number))
                    if kind == socket.SOCK_STREAM:
                        probe.listen()
            except OSError as error:
                if family == socket.AF_INET6 and error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                    continue  # the machine has no IPv6
                return False
    return True
