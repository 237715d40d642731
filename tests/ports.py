"""Ports for servers that cannot choose a free port themselves.

They lie below the range from which the system takes ports for outgoing connections, and each test worker has a part of
its own, so that no other process takes a port between its choice and its use. Workers of two runs at the same time
share a part, and start at different ports of it.
"""

import itertools
import os
import socket

_FIRST, _PER_WORKER = 20_000, 1_500
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw") or 0) % 8
_offsets = itertools.count(os.getpid() * 101)


def free_port() -> int:
    for offset in itertools.islice(_offsets, _PER_WORKER):
        number = _FIRST + _worker * _PER_WORKER + offset % _PER_WORKER
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", number))
            except OSError:
                continue
            return number
    raise RuntimeError("no port is free")


def free_ports(count: int) -> list[int]:
    return [free_port() for _ in range(count)]
