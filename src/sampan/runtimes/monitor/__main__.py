"""`python -m sampan.runtimes.monitor DIRECTORY`: run the monitor of a node as a daemon on DIRECTORY/monitor.sock."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import sys

from sampan.runtimes.monitor.server import Monitor

SOCKET, LOCK, LOG = "monitor.sock", "monitor.lock", "monitor.log"


def main(directory: str) -> None:
    lock = os.open(os.path.join(directory, LOCK), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return  # another monitor holds the lock
    path = os.path.join(directory, SOCKET)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    os.umask(0o077)
    listening.bind(path)
    listening.listen(64)
    listening.setblocking(False)
    if not _is_child(keep={lock, listening.fileno()}):
        return
    os.umask(0o022)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _ignore_signal)
    try:
        Monitor(listening).run()
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _ignore_signal(number: int, frame: object) -> None:
    """Ignore a signal. This is a handler because SIG_IGN would be inherited by child processes."""


def _is_child(keep: set[int]) -> bool:
    """Fork into the background, and return whether this is the child. The socket is listening already, so the starter
    may connect as soon as the parent exits. All descriptors except `keep` are closed: they were inherited by accident,
    and another process may be waiting for their end of file."""
    sys.stdout.flush()
    if os.fork():
        return False
    os.setsid()
    null, log = os.open(os.devnull, os.O_RDWR), os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for file, copy in ((null, 0), (null, 1), (log, 2)):
        os.dup2(file, copy)
    for file in map(int, os.listdir("/proc/self/fd")):
        if file > 2 and file not in keep:
            with contextlib.suppress(OSError):
                os.close(file)
    return True


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    main(".")
