"""Writes pending data to many streams in batches, without a task for each.

A turn of writing is followed by a pause that is a few times as long, so that writing takes at most about a tenth of the
time of the event loop. Events that arrive during the pause are sent in fewer and larger writes. The cost depends on the
number of writes (200 watchers of one object: 8 instead of 16 us for each event). A single event is sent at once. With a
handful of watchers the pause is too short to notice; with very many it is bounded by `_MAX_PAUSE_S`. There is no
pause while so much data is queued that memory matters more than time (`is_urgent`). There is no pause either while
streams that became ready some time ago have not all been served: requests that write share the event loop, and then
wait for the watchers instead of outrunning them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Protocol

_MAX_TURN_S = 0.01
"""The maximum duration of a turn: a turn continues with the next stream only while it has taken less than this."""
_PAUSE_FACTOR = 8
_MAX_PAUSE_S = 0.02
_MIN_PAUSE_S = 0.0005
_MAX_ROUND_S = 0.25
"""If serving all streams that were ready takes longer than this, there are no pauses until all are served."""


class PumpedStream(Protocol):
    def send(self) -> None:
        """Write the pending data."""


class Pump:
    def __init__(
        self, *, now: Callable[[], float] = perf_counter, is_urgent: Callable[[], bool] = lambda: False
    ) -> None:
        self._now, self._is_urgent = now, is_urgent
        self._ready: deque[PumpedStream] = deque()
        self._is_scheduled = False
        self._not_before = 0.0
        self._round_began = 0.0
        self._left_in_round = 0
        """How many of the streams that were ready at the start of the round have not been served yet."""

    def add(self, stream: PumpedStream) -> None:
        """Schedule a stream that has data to send. It must not be added again before its `send` has been called."""
        self._ready.append(stream)
        if not self._is_scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._is_scheduled = True
        loop, pause_s = asyncio.get_running_loop(), self._not_before - self._now()
        if pause_s < _MIN_PAUSE_S:
            loop.call_soon(self._turn)
        else:
            loop.call_later(pause_s, self._turn)

    def _turn(self) -> None:
        ready, began, now = self._ready, self._now(), 0.0
        if self._left_in_round <= 0:
            self._left_in_round, self._round_began = len(ready), began
        for _ in range(len(ready)):
            ready.popleft().send()
            self._left_in_round -= 1
            now = self._now()
            if now - began > _MAX_TURN_S:
                break
        if now - self._round_began < _MAX_ROUND_S and not self._is_urgent():
            self._not_before = now + min((now - began) * _PAUSE_FACTOR, _MAX_PAUSE_S)
        self._is_scheduled = False
        if ready:
            self._schedule()
