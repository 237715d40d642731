"""Detects changes of a file or its replacement: by inotify, or by polling."""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
from pathlib import Path
from typing import Protocol

_MODIFY, _CREATE, _MOVED_TO, _DELETE_SELF = 0x2, 0x100, 0x80, 0x400
_NONBLOCK = os.O_NONBLOCK | os.O_CLOEXEC
_LOOK_S = 0.2


class Watch(Protocol):
    async def wait(self, timeout_s: float) -> None:
        """Wait until something has changed since the last call, or until the timeout."""

    def close(self) -> None: ...


class KernelWatch:
    """Watches the directory with inotify, because the file may be renamed and created again."""

    def __init__(self, path: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._file = libc.inotify_init1(_NONBLOCK)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        mask = _MODIFY | _CREATE | _MOVED_TO | _DELETE_SELF
        directory = os.path.realpath(path.parent if not path.is_symlink() else os.path.realpath(path) + "/..")
        if libc.inotify_add_watch(self._file, os.fsencode(directory), mask) < 0:
            os.close(self._file)
            raise OSError(ctypes.get_errno(), "inotify_add_watch")
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._file, self._on_change)

    def _on_change(self) -> None:
        try:
            os.read(self._file, 1 << 16)
        except BlockingIOError:
            return
        self._changed.set()

    async def wait(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return
        self._changed.clear()

    def close(self) -> None:
        self._loop.remove_reader(self._file)
        os.close(self._file)


class Looking:
    """Polls where inotify is not available."""

    async def wait(self, timeout_s: float) -> None:
        await asyncio.sleep(min(timeout_s, _LOOK_S))

    def close(self) -> None:
        return


def watch(path: Path) -> Watch:
    if sys.platform == "linux":
        try:
            return KernelWatch(path)
        except OSError:
            return Looking()
    return Looking()
