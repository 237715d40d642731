"""Raw mode of the terminal for interactive sessions, and changes of its size."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager


def is_terminal() -> bool:
    return sys.stdin.isatty()


@contextmanager
def raw() -> Iterator[None]:
    """Switch the terminal to raw mode for the duration of the block. What has been typed before is kept."""
    import termios
    import tty

    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)
    try:
        tty.setraw(file, termios.TCSANOW)
        yield
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)


async def sizes() -> AsyncIterator[tuple[int, int]]:
    """Yield the current size of the terminal, and then each new one."""
    changed, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGWINCH, changed.set)
    try:
        while True:
            size = os.get_terminal_size(sys.stdin.fileno())
            yield size.columns, size.lines
            await changed.wait()
            changed.clear()
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
