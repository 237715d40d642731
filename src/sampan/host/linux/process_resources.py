"""The limit on open file descriptors of the process, and the return of freed memory to the operating system."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import resource
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)

_UNBOUNDED = 1 << 20
"""The value used for a limit of "unlimited": the kernel's default upper bound (fs.nr_open)."""

_WORTH_TRIMMING = 16 << 20
_INTERVAL_S = 10.0
_SETTLED_S = 1.0
"""Memory is freed in many small parts: wait this long until most of them are freed before trimming."""


def raise_descriptor_limit() -> int:
    """Raise the soft limit on open files to the hard limit, as programs written in Go do, and return the new limit.

    The usual soft limit of 1,024 exists for programs that use select(), which the server and its components do not.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    desired = _UNBOUNDED if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < desired:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (desired, hard))
        except (OSError, ValueError) as error:
            log.debug("cannot raise the limit on open files from %d to %d: %s", soft, desired, error)
        else:
            log.debug("raised the limit on open files from %d to %d", soft, desired)
    return descriptor_limit()


def descriptor_limit() -> int:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _UNBOUNDED if soft == resource.RLIM_INFINITY else soft


def _malloc_trim() -> Callable[[], None] | None:
    """Return glibc's `malloc_trim(0)`, or None if the C library has no such function."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return None
    return lambda: trim(0)


class MemoryTrimmer:
    """Makes the allocator return free memory to the operating system after much of it was freed.

    glibc keeps the memory of freed objects if something behind them is still in use, so a burst would set the size of
    the process forever. Trimming takes milliseconds and is done in a thread, without the interpreter lock, at most once
    in ten seconds.
    """

    def __init__(self, *, trim: Callable[[], None] | None = None, interval_s: float = _INTERVAL_S) -> None:
        self._trim = trim or _malloc_trim()
        self._interval_s = interval_s
        self._freed = 0
        self._timer: asyncio.TimerHandle | None = None
        self._not_before = 0.0

    def record_freed(self, size: int) -> None:
        """Record that `size` bytes were freed; called on the event loop, or after it has stopped."""
        self._freed += size
        if self._freed < _WORTH_TRIMMING or self._timer is not None or self._trim is None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        self._timer = loop.call_at(max(loop.time() + _SETTLED_S, self._not_before), self._start)

    def _start(self) -> None:
        self._not_before = asyncio.get_running_loop().time() + self._interval_s
        self._timer, self._freed = None, 0
        if self._trim is not None:
            threading.Thread(target=self._trim, name="memory trimmer", daemon=True).start()
