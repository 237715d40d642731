"""Health of zones, and the rate at which their nodes may be tainted for eviction. Times are passed in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from sampan.api.types.core_v1 import Node

_REGION = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
_ZONE = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
EXCLUDED = "node.kubernetes.io/exclude-disruption"
"""The label of nodes that are excluded from the health of their zone."""


class ZoneState(Enum):
    INITIAL = "Initial"
    NORMAL = "Normal"
    PARTIAL = "PartialDisruption"
    FULL = "FullDisruption"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionRates:
    """Eviction rates in nodes per second, and the thresholds that select them."""

    normal: float
    reduced: float
    """The rate in a partially disrupted zone with more than `large` nodes. In smaller zones evictions stop."""
    large: int
    unhealthy_share: float

    def select_rate(self, state: ZoneState, size: int) -> float:
        if state is ZoneState.PARTIAL:
            return self.reduced if size > self.large else 0.0
        return self.normal


def zone_of(node: Node) -> tuple[str, str]:
    labels = node.metadata.labels
    region, zone = (next((labels[key] for key in keys if key in labels), "") for keys in (_REGION, _ZONE))
    return region, zone


def state_of(are_ready: Sequence[bool], rates: EvictionRates) -> ZoneState:
    unready = len(are_ready) - sum(are_ready)
    if unready and unready == len(are_ready):
        return ZoneState.FULL
    if unready > 2 and unready / len(are_ready) >= rates.unhealthy_share:
        return ZoneState.PARTIAL
    return ZoneState.NORMAL


class ZoneQueue:
    """Nodes that wait for the NoExecute taint, in FIFO order, rate-limited by a token bucket with a burst of one."""

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._tokens, self._at = 1.0, now
        self._waiting: dict[str, bool] = {}
        """Nodes in order of arrival. False marks a node that was taken and must not be added again before its removal.
        """

    def add(self, name: str) -> None:
        self._waiting.setdefault(name, True)

    def requeue(self, name: str) -> None:
        """Requeue a node that was taken; a node that is waiting keeps its position."""
        if self._waiting.get(name) is False:
            del self._waiting[name]
        self.add(name)

    def remove(self, name: str) -> None:
        self._waiting.pop(name, None)

    def set_rate(self, rate: float, now: float) -> None:
        if rate == self._rate:
            return
        self._refill(now)
        was_waiting = self._rate <= 0 or self._tokens < 1
        self._rate = rate
        self._tokens = 0.0 if was_waiting and rate > 0 else 1.0

    def take(self, now: float) -> str | None:
        """Return the next node, or None if there is none or the rate does not allow it."""
        self._refill(now)
        name = self._head()
        if name is None or self._rate <= 0 or self._tokens < 1:
            return None
        self._tokens -= 1
        self._waiting[name] = False
        return name

    def next_in_s(self, now: float) -> float | None:
        """Return the seconds until `take` can return a node, or None if none is waiting or the rate is zero."""
        if self._head() is None or self._rate <= 0:
            return None
        self._refill(now)
        return max((1 - self._tokens) / self._rate, 0.0)

    def _head(self) -> str | None:
        return next((name for name, waits in self._waiting.items() if waits), None)

    def _refill(self, now: float) -> None:
        # Slightly more than the elapsed time is credited, as rounding could otherwise leave less than a token when it
        # is due.
        self._tokens = min(1.0, self._tokens + (now - self._at) * max(self._rate, 0.0) + 1e-9)
        self._at = now


@dataclass(slots=True)
class Zone:
    state: ZoneState
    queue: ZoneQueue


class Zones:
    """All zones with their states and queues."""

    def __init__(self, rates: EvictionRates) -> None:
        self._rates = rates
        self._zones: dict[tuple[str, str], Zone] = {}

    def queue(self, node: Node, now: float) -> ZoneQueue:
        key = zone_of(node)
        zone = self._zones.get(key)
        if zone is None:
            zone = self._zones[key] = Zone(ZoneState.INITIAL, ZoneQueue(self._rates.normal, now))
        return zone.queue

    def state(self, zone: tuple[str, str]) -> ZoneState | None:
        record = self._zones.get(zone)
        return record.state if record is not None else None

    def remove(self, name: str) -> None:
        """Remove the node from all queues: it was deleted, or may have moved to another zone."""
        for zone in self._zones.values():
            zone.queue.remove(name)

    def queues(self) -> Iterable[ZoneQueue]:
        return [zone.queue for zone in self._zones.values()]

    def update_states(self, health: Mapping[tuple[str, str], Sequence[bool]], now: float) -> ZoneTransition:
        """Update the states and rates from the readiness of the nodes in each zone.

        If all zones are fully disrupted, the control plane is more likely to have failed than all nodes, and evictions
        stop.
        """
        new = {zone: state_of(ready, self._rates) for zone, ready in health.items()}
        states = {zone: record for zone, record in self._zones.items() if zone in new}
        if not new:
            return ZoneTransition.NONE
        all_are = all(state is ZoneState.FULL for state in new.values())
        all_were = bool(states) and all(record.state is ZoneState.FULL for record in states.values())
        if all_are and all_were:
            return ZoneTransition.NONE
        for zone, record in states.items():
            if all_are:
                record.queue.set_rate(0.0, now)
            elif all_were or record.state is not new[zone]:
                record.queue.set_rate(self._rates.select_rate(new[zone], len(health[zone])), now)
            record.state = new[zone]
        if all_are:
            return ZoneTransition.LOST_ALL
        return ZoneTransition.FOUND_SOME if all_were else ZoneTransition.NONE


class ZoneTransition(Enum):
    NONE = 0
    LOST_ALL = 1
    """No node is ready any more: evictions must stop."""
    FOUND_SOME = 2
    """Some nodes are ready again: the grace periods of all nodes start again."""
