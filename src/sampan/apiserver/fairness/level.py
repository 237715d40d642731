"""One priority level: its seats, and the queues of those who wait for one.

A flow is dealt a hand of queues and waits in the shortest of them, so that one flow that floods its own hand leaves
most others a queue of theirs. The next to be served is the first of the queue that has had the least service.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Awaitable
from dataclasses import dataclass, field

from sampan.machinery import errors

_REFUSAL = "Too many requests, please try again later."
_PATIENCE_S = 15.0


@dataclass(frozen=True, slots=True)
class Limits:
    seats: int
    queues: int = 0
    """0: who finds no seat is refused."""
    hand: int = 0
    queue_length: int = 0


@dataclass(slots=True)
class _Queue:
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)
    served: int = 0
    """The service that it has had, or would have had if it had never been empty."""


class Level:
    def __init__(self, name: str, limits: Limits) -> None:
        self.name, self.limits = name, limits
        self.taken = 0
        self.waiting = 0
        self._queues: list[_Queue] = []
        self._now = 0
        """The service of the queue that was served last: where a queue that fills begins."""

    def configure(self, limits: Limits) -> None:
        """Other limits from now on. Those who wait are served out of the queues they are in."""
        self.limits = limits
        self._serve()

    def enter(self, flow: str) -> Awaitable[None] | None:
        """Take a seat: at once (None), or after a wait. TooManyRequests where there is no room to wait."""
        if self.taken < self.limits.seats and not self.waiting:
            self.taken += 1
            return None
        if not self.limits.queues:
            raise refusal()
        queue = self._shortest(flow)
        if len(queue.waiting) >= self.limits.queue_length:
            raise refusal()
        return self._wait(queue)

    def leave(self) -> None:
        """Give a seat back."""
        self.taken -= 1
        self._serve()

    async def _wait(self, queue: _Queue) -> None:
        if not queue.waiting:
            queue.served = max(queue.served, self._now)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.waiting.append(turn)
        self.waiting += 1
        self._serve()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await turn
        except BaseException as fault:
            self._give_up(queue, turn)
            if isinstance(fault, TimeoutError):
                raise refusal() from None
            raise

    def _give_up(self, queue: _Queue, turn: asyncio.Future[None]) -> None:
        if turn in queue.waiting:
            queue.waiting.remove(turn)
            self.waiting -= 1
        else:
            self.leave()

    def _serve(self) -> None:
        while self.waiting and self.taken < self.limits.seats:
            queue = min((each for each in self._queues if each.waiting), key=lambda each: each.served)
            self._now = queue.served
            queue.served += 1
            self.waiting -= 1
            self.taken += 1
            turn = queue.waiting.popleft()
            if not turn.done():
                turn.set_result(None)

    def _shortest(self, flow: str) -> _Queue:
        while len(self._queues) < self.limits.queues:
            self._queues.append(_Queue())
        hand = deal(flow, self.limits.queues, self.limits.hand)
        return min((self._queues[at] for at in hand), key=lambda queue: len(queue.waiting))


def deal(flow: str, queues: int, hand: int) -> list[int]:
    """Different queues for a flow, always the same ones."""
    number = int.from_bytes(hashlib.blake2b(flow.encode(), digest_size=16).digest(), "big")
    left, found = list(range(queues)), []
    for _ in range(min(hand, queues)):
        number, at = divmod(number, len(left))
        found.append(left.pop(at))
    return found


def refusal() -> errors.TooManyRequests:
    return errors.too_many_requests(_REFUSAL, retry_after_s=1)


__all__ = ["Level", "Limits", "deal", "refusal"]
