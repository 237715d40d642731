"""The longest time for which an event loop ran one piece of work, with its stack, and how busy the loop is."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from dataclasses import dataclass

_TICK_S = 0.005
_SAMPLED_S = 0.05
"""After how long without a tick the stack of the loop's thread is sampled."""
QUIET_PART = 0.25
"""An idle cluster uses a smaller part of the time than this."""


@dataclass(slots=True)
class Hold:
    """A time for which the loop ran no other work."""

    cpu_s: float
    """The CPU time of the loop's thread. The time that other processes and threads take does not count, so that the
    figure does not depend on how busy the machine is."""
    stack: str
    """Where the loop's thread was at the end."""


class LoopMeter:
    """Measures a loop that runs in another thread, from `start` to `stop`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._longest = Hold(0.0, "")
        self._is_stopped = threading.Event()
        self._thread_id = 0
        self._ticked_at = self._cpu_s = 0.0
        self._sampled = ""

    def start(self) -> None:
        self._loop.call_soon_threadsafe(self._begin)
        threading.Thread(target=self._watch, daemon=True).start()

    def stop(self) -> Hold:
        self._is_stopped.set()
        return self._longest

    def cpu_s(self) -> float:
        """Return the CPU time of the loop's thread at the last tick."""
        return self._cpu_s

    def _begin(self) -> None:
        self._thread_id = threading.get_ident()
        self._ticked_at, self._cpu_s = time.monotonic(), time.thread_time()
        self._loop.call_later(_TICK_S, self._tick)

    def _tick(self) -> None:
        cpu_s = time.thread_time()
        if cpu_s - self._cpu_s > self._longest.cpu_s:
            self._longest = Hold(cpu_s - self._cpu_s, self._sampled)
        self._ticked_at, self._cpu_s, self._sampled = time.monotonic(), cpu_s, ""
        if not self._is_stopped.is_set():
            self._loop.call_later(_TICK_S, self._tick)

    def _watch(self) -> None:
        while not self._is_stopped.wait(_TICK_S):
            if time.monotonic() - self._ticked_at > _SAMPLED_S and self._thread_id:
                frame = sys._current_frames().get(self._thread_id)
                self._sampled = "".join(traceback.format_stack(frame)[-12:])
