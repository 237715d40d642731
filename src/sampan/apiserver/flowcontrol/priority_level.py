"""One priority level: its seats, the queues of requests that wait for one, and the seats it lends to other levels.

Each flow is dealt a hand of queues and waits in the shortest of them (shuffle sharding), so that a flow that fills its
own hand leaves most others a queue. The next request is the first of the queue that has received the least service.
Expensive requests occupy several seats. The counterpart is `queueset` in
`k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing`.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections import deque
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field

from sampan.machinery import errors

_REFUSAL = "Too many requests, please try again later."
_QUEUE_TIMEOUT_S = 15.0


@dataclass(frozen=True, slots=True)
class PriorityLevelLimits:
    seats: int
    """The nominal number of seats."""
    queues: int = 0
    """The number of queues; with 0, requests for which no seat is free are rejected."""
    hand: int = 0
    queue_length: int = 0
    lendable: int = 0
    """How many unused seats other levels may borrow."""
    borrowable: int | None = None
    """How many seats the level may borrow from other levels; None means unlimited."""

    @property
    def least(self) -> int:
        return self.seats - self.lendable

    def max_seats(self, all_seats: int) -> int:
        return all_seats if self.borrowable is None else self.seats + self.borrowable


@dataclass(slots=True, eq=False)
class _QueuedRequest:
    width: int
    comes: asyncio.Future[None]


@dataclass(slots=True)
class _Queue:
    waiting: deque[_QueuedRequest] = field(default_factory=deque)
    served: int = 0
    """The service that the queue has received, or would have received if it had never been empty (virtual time)."""


class PriorityLevel:
    def __init__(self, name: str, limits: PriorityLevelLimits) -> None:
        self.name, self.limits = name, limits
        self.seats = limits.seats
        """The current number of seats, including lent and borrowed ones."""
        self.seats_in_use = 0
        self.waiting = 0
        """The number of queued requests."""
        self.executing = 0
        self.seats_in_queue = 0
        """The seats that queued requests need."""
        self.peak_demand = 0
        """The maximum of seats in use or needed since the last adjustment."""
        self.dispatched = self.refused = 0
        """The number of requests so far."""
        self._queues: list[_Queue] = []
        self._now = 0
        """The virtual time: the service of the queue served last, at which an empty queue starts again."""

    def configure(self, limits: PriorityLevelLimits) -> None:
        """Set other limits. Queued requests remain in their queues."""
        self.limits = limits
        self.resize(limits.seats)

    def resize(self, seats: int) -> None:
        self.seats = seats
        self._serve()

    def enter(self, flow: str, width: int = 1) -> Awaitable[None] | None:
        """Occupy seats: at once (None), or when the returned awaitable ends. Raise TooManyRequests if the queue is
        full."""
        if not self.waiting and self._has_room(width):
            self._take(width)
            return None
        queue = self._find_shortest_queue(flow) if self.limits.queues else None
        if queue is None or len(queue.waiting) >= self.limits.queue_length:
            self.refused += 1
            raise rejection()
        return self._wait(queue, width)

    def leave(self, width: int = 1) -> None:
        """Release the seats of a request that has ended."""
        self.seats_in_use -= width
        self.executing -= 1
        self._serve()

    def _has_room(self, width: int) -> bool:
        """Whether the seats are available. A request wider than the level is executed alone."""
        return self.seats_in_use + width <= self.seats or (self.seats_in_use == 0 < self.seats)

    def _take(self, width: int) -> None:
        self.seats_in_use += width
        self.executing += 1
        self.dispatched += 1
        if (demand := self.seats_in_use + self.seats_in_queue) > self.peak_demand:
            self.peak_demand = demand

    async def _wait(self, queue: _Queue, width: int) -> None:
        if not queue.waiting:
            queue.served = max(queue.served, self._now)
        turn = _QueuedRequest(width, asyncio.get_running_loop().create_future())
        queue.waiting.append(turn)
        self.waiting += 1
        self.seats_in_queue += width
        self.peak_demand = max(self.peak_demand, self.seats_in_use + self.seats_in_queue)
        self._serve()
        try:
            async with asyncio.timeout(_QUEUE_TIMEOUT_S):
                await turn.comes
        except BaseException as error:
            self._give_up(queue, turn)
            if isinstance(error, TimeoutError):
                self.refused += 1
                raise rejection() from None
            raise

    def _give_up(self, queue: _Queue, turn: _QueuedRequest) -> None:
        if turn in queue.waiting:
            queue.waiting.remove(turn)
            self.waiting -= 1
            self.seats_in_queue -= turn.width
        else:
            self.leave(turn.width)

    def _serve(self) -> None:
        while self.waiting:
            queue = min(
                (candidate for candidate in self._queues if candidate.waiting), key=lambda candidate: candidate.served
            )
            turn = queue.waiting[0]
            if not self._has_room(turn.width):
                return
            queue.waiting.popleft()
            self._now = queue.served
            queue.served += turn.width
            self.waiting -= 1
            self.seats_in_queue -= turn.width
            self._take(turn.width)
            if not turn.comes.done():
                turn.comes.set_result(None)

    def _find_shortest_queue(self, flow: str) -> _Queue:
        while len(self._queues) < self.limits.queues:
            self._queues.append(_Queue())
        hand = deal(flow, self.limits.queues, self.limits.hand)
        return min((self._queues[index] for index in hand), key=lambda queue: len(queue.waiting))


def deal(flow: str, queues: int, hand: int) -> list[int]:
    """Return the hand of distinct queues of a flow, which is always the same."""
    number = int.from_bytes(hashlib.blake2b(flow.encode(), digest_size=16).digest(), "big")
    remaining, chosen = list(range(queues)), []
    for _ in range(min(hand, queues)):
        number, position = divmod(number, len(remaining))
        chosen.append(remaining.pop(position))
    return chosen


def rejection() -> errors.TooManyRequests:
    return errors.too_many_requests(_REFUSAL, retry_after_s=1)


PERIOD_S = 10.0
"""The interval between two adjustments."""
SAMPLES = 10
_DEMAND_SMOOTHING_COEFFICIENT = 0.977
"""The factor by which the smoothed demand decays in each period."""
_STEPS = 40


@dataclass(slots=True)
class SeatDemand:
    """The recent seat demand of a level."""

    samples: list[int] = field(default_factory=list)
    smooth: float = 0.0

    def add_sample(self, seats: int) -> None:
        self.samples.append(seats)

    def target(self, maximum: int) -> float:
        """Return the target number of seats, from the samples since the last call and `maximum`, the maximum in that
        time."""
        samples, self.samples = self.samples or [0], []
        mean = sum(samples) / len(samples)
        spread = math.sqrt(sum((sample - mean) ** 2 for sample in samples) / len(samples))
        envelope = min(float(maximum), mean + spread)
        self.smooth = max(
            envelope, _DEMAND_SMOOTHING_COEFFICIENT * self.smooth + (1 - _DEMAND_SMOOTHING_COEFFICIENT) * envelope
        )
        return self.smooth


@dataclass(frozen=True, slots=True)
class SeatRequest:
    least: int
    most: int
    target: float


def allocate_seats(wants: Sequence[SeatRequest], seats: int) -> list[int]:
    """Return the seats of each level: the same fraction of every target, within the bounds, so that all seats are
    allocated."""
    low, high = 0.0, max([seats / max(want.target, 1e-6) for want in wants], default=0.0) + 1
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if sum(_clamp_seats(want, middle) for want in wants) <= seats:
            low = middle
        else:
            high = middle
    return [round(_clamp_seats(want, low)) for want in wants]


def _clamp_seats(want: SeatRequest, part: float) -> float:
    return min(max(part * max(want.target, 1e-6), want.least), want.most)


class SeatBorrowing:
    """Samples the demand of the levels periodically, and sets their seats for the next period."""

    def __init__(self, *, seats: int) -> None:
        self._seats = seats
        self._demands: dict[str, SeatDemand] = {}
        self._samples = 0

    def sample(self, levels: dict[str, PriorityLevel]) -> None:
        """Take a sample; must be called SAMPLES times per period."""
        self._demands = {name: self._demands.get(name) or SeatDemand() for name in levels}
        for name, level in levels.items():
            self._demands[name].add_sample(level.seats_in_use + level.seats_in_queue)
        self._samples += 1
        if self._samples >= SAMPLES:
            self._samples = 0
            self._share_out(levels)

    def _share_out(self, levels: dict[str, PriorityLevel]) -> None:
        wants = []
        for name, level in levels.items():
            limits, maximum = level.limits, level.peak_demand
            level.peak_demand = level.seats_in_use + level.seats_in_queue
            minimum = max(limits.least, min(limits.seats, maximum))
            wants.append(SeatRequest(minimum, limits.max_seats(self._seats), self._demands[name].target(maximum)))
        for level, seats in zip(levels.values(), allocate_seats(wants, self._seats), strict=True):
            if seats != level.seats:
                level.resize(seats)
