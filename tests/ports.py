"""Ports for servers that cannot choose a free port themselves.

They lie below the range from which the system takes ports for outgoing connections, and each test worker has a part of
its own, so that no other process takes a port between its choice and its use.
"""

import itertools
import os
import socket

_FIRST, _PER_WORKER = 20_000, 1_500
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw") or 0) % 8
_numbers = itertools.cycle(range(_FIRST + _worker * _PER_WORKER, _FIRST + (_worker + 1) * _PER_WORKER))


def free_port() -> int:
    for number in itertools.islice(_numbers, _PER_WORKER):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", number))
            except OSError:
                continue
            return number
    raise RuntimeError("no port is free")


def free_ports(count: int) -> list[int]:
    return [free_port() for _ in range(count)]
