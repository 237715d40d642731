"""Reports what blocks the event loop: the stack of its thread and the request that it is serving.

Everything in a process shares one event loop, so a function that computes for a second delays every watch, lease and
health check by a second. The loop calls `beat` at regular intervals (see `LoopLag`); a daemon thread checks the time of
the last beat a few times a second, and samples the stack of the loop's thread when a beat is overdue.

A late beat does not always mean that the loop is blocked: on a busy machine its thread may just not get a CPU. The CPU
time of the thread decides. A stall spent computing is logged as a warning and counted with cause "cpu"; any other (a
busy machine, a blocking system call, another thread that holds the interpreter lock) is logged as information and
counted with cause "wait".
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NamedTuple

from sampan.machinery.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

STALL_S = 0.25
"""How late a beat may be before it counts as a stall."""
_MAX_RECORDED_STALLS = 20
_STACK_DEPTH = 40

Describe = Callable[[FrameType], str]
"""Returns a description of what a stack frame is working on ("POST /api/v1/pods by alice"), or "" if unknown."""


class LoopStall(NamedTuple):
    """A period in which the event loop did not run."""

    wall_s: float
    cpu_s: float
    request: str
    stack: str
    """Empty if the stall was over before the watchdog thread took a sample."""

    @property
    def is_computing(self) -> bool:
        """Whether the loop's own thread used the time, rather than waiting."""
        return self.cpu_s >= STALL_S

    def __str__(self) -> str:
        serving = f" while serving {self.request}" if self.request else ""
        return (
            f"the event loop did not run for {self.wall_s:.2f} s (CPU time {self.cpu_s:.2f} s){serving}\n{self.stack}"
        )


class _StackSample(NamedTuple):
    beat: int
    request: str
    stack: str


class LoopWatchdog:
    """Use `with watchdog.watching():` in the loop's thread, while another task calls `beat` every `interval_s`."""

    def __init__(self, *, metrics: Metrics, interval_s: float, describe: Describe = lambda frame: "") -> None:
        self._interval_s, self._describe = interval_s, describe
        self._stopped = threading.Event()
        self._thread_id = 0
        self._beats = 0
        self._beat_at = self._cpu_s = 0.0
        """Time and CPU time of the loop's thread at the last beat."""
        self._sample: _StackSample | None = None
        self.stalls: deque[LoopStall] = deque(maxlen=_MAX_RECORDED_STALLS)
        """The most recent stalls."""
        self.longest_s = 0.0
        counted = metrics.counter(
            "sampan_loop_stalls_total",
            "Stalls of the event loop of at least 250 ms, spent computing (cpu) or waiting (wait).",
            ("cause",),
        )
        self._computing, self._waiting = counted.labels("cpu"), counted.labels("wait")
        metrics.function(
            "sampan_loop_stall_max_cpu_seconds",
            "Longest CPU time of one stall of the event loop.",
            lambda: self.longest_s,
        )

    @contextmanager
    def watching(self) -> Iterator[None]:
        self._thread_id = threading.get_ident()
        self._beat_at, self._cpu_s = time.monotonic(), time.thread_time()
        self._stopped.clear()
        thread = threading.Thread(target=self._watch, name="sampan-loop-watchdog", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()

    def beat(self) -> None:
        """Record that the loop is running."""
        now, cpu_s = time.monotonic(), time.thread_time()
        late_s = now - self._beat_at - self._interval_s
        if late_s >= STALL_S:
            # CPU time that may have been used before the beat was due does not count.
            self._count(late_s, max(cpu_s - self._cpu_s - self._interval_s, 0.0))
        self._beats += 1
        self._beat_at, self._cpu_s = now, cpu_s

    def _count(self, late_s: float, cpu_s: float) -> None:
        sample = self._sample
        if sample is None or sample.beat != self._beats:
            sample = _StackSample(self._beats, "", "")
        stall = LoopStall(late_s, cpu_s, sample.request, sample.stack)
        (self._computing if stall.is_computing else self._waiting).inc()
        self.longest_s = max(self.longest_s, cpu_s)
        self.stalls.append(stall)
        log.log(logging.WARNING if stall.is_computing else logging.INFO, "%s", stall)

    # -- in the thread of the watchdog -------------------------------------------------------------------------------

    def _watch(self) -> None:
        overdue_s = self._interval_s + STALL_S
        while not self._stopped.wait(max(self._beat_at + overdue_s - time.monotonic(), STALL_S / 4)):
            if time.monotonic() < self._beat_at + overdue_s:
                continue
            beat = self._beats
            if self._sample is None or self._sample.beat != beat:
                self._take_sample(beat)
            self._stopped.wait(STALL_S)

    def _take_sample(self, beat: int) -> None:
        frame = sys._current_frames().get(self._thread_id)
        if frame is None:
            return
        frames = [stack_frame for stack_frame, _ in traceback.walk_stack(frame)][:_STACK_DEPTH]
        stack = "".join(reversed([f"  {_place(stack_frame)}\n" for stack_frame in frames]))
        request = next((text for stack_frame in frames if (text := self._describe(stack_frame))), "")
        if self._beats == beat:
            self._sample = _StackSample(beat, request, stack)


def _place(frame: FrameType) -> str:
    code = frame.f_code
    return f"{code.co_filename}:{frame.f_lineno} {code.co_qualname}"
