"""Numbers for the names and addresses of kernel objects that exist once per machine.

Tests that run at the same time, in other workers or in other runs, never have the same number for the same purpose.
"""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved_number(purpose: str, count: int) -> Iterator[int]:
    """Yield a number below `count` that no other test on this machine has. An abstract socket reserves it, which the
    kernel removes even if the test is killed."""
    for offset in range(count):
        number = (os.getpid() + offset) % count
        with socket.socket(socket.AF_UNIX) as reservation:
            try:
                reservation.bind(f"\0sampan-tests/{purpose}/{number}")
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                continue
            yield number
            return
    raise RuntimeError(f"all numbers are reserved: {purpose}")


@contextmanager
def reserved_subnet(block: str) -> Iterator[str]:
    """Yield an IPv4 subnet of 256 addresses within a block that is given by its first two bytes, such as 198.18."""
    with reserved_number(f"subnet/{block}", 256) as number:
        yield f"{block}.{number}.0/24"
