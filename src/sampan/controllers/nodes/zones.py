"""Zones: how much of each is well, and how quickly its nodes' pods may be evicted. No clock: times are handed in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from sampan.api.types.core_v1 import Node

_REGION = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
_ZONE = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
EXCLUDED = "node.kubernetes.io/exclude-disruption"
"""The label of nodes that do not count in a zone's health."""


class ZoneState(Enum):
    INITIAL = "Initial"
    NORMAL = "Normal"
    PARTIAL = "PartialDisruption"
    FULL = "FullDisruption"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Nodes a second."""

    normal: float
    reduced: float
    """In a large zone of which a part is not ready; a small one stops."""
    large: int
    unhealthy_share: float

    def of(self, state: ZoneState, size: int) -> float:
        if state is ZoneState.PARTIAL:
            return self.reduced if size > self.large else 0.0
        return self.normal


def zone_of(node: Node) -> tuple[str, str]:
    labels = node.metadata.labels
    region, zone = (next((labels[key] for key in keys if key in labels), "") for keys in (_REGION, _ZONE))
    return region, zone


def state_of(are_ready: Sequence[bool], rates: Rates) -> ZoneState:
    unready = len(are_ready) - sum(are_ready)
    if unready and unready == len(are_ready):
        return ZoneState.FULL
    if unready > 2 and unready / len(are_ready) >= rates.unhealthy_share:
        return ZoneState.PARTIAL
    return ZoneState.NORMAL


class ZoneQueue:
    """Nodes that wait for the taint that evicts, first come first served; a token bucket that holds one."""

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._tokens, self._at = 1.0, now
        self._waiting: dict[str, bool] = {}
        """Nodes in order; False for those that had their turn and are not to be added again until removed."""

    def add(self, name: str) -> None:
        self._waiting.setdefault(name, True)

    def again(self, name: str) -> None:
        """One that had its turn wants another; one that waits keeps its place."""
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
        """The next node, if there is one and the rate allows it."""
        self._refill(now)
        name = self._head()
        if name is None or self._rate <= 0 or self._tokens < 1:
            return None
        self._tokens -= 1
        self._waiting[name] = False
        return name

    def next_in_s(self, now: float) -> float | None:
        """When `take` may give one; None if nothing waits, or nothing may."""
        if self._head() is None or self._rate <= 0:
            return None
        self._refill(now)
        return max((1 - self._tokens) / self._rate, 0.0)

    def _head(self) -> str | None:
        return next((name for name, waits in self._waiting.items() if waits), None)

    def _refill(self, now: float) -> None:
        # a hair more than what passed, lest rounding leave a token short at the very moment that it is due
        self._tokens = min(1.0, self._tokens + (now - self._at) * max(self._rate, 0.0) + 1e-9)
        self._at = now


@dataclass(slots=True)
class Zone:
    state: ZoneState
    queue: ZoneQueue


class Zones:
    """All zones, and what a change in their health means."""

    def __init__(self, rates: Rates) -> None:
        self._rates = rates
        self._zones: dict[tuple[str, str], Zone] = {}

    def queue(self, node: Node, now: float) -> ZoneQueue:
        key = zone_of(node)
        found = self._zones.get(key)
        if found is None:
            found = self._zones[key] = Zone(ZoneState.INITIAL, ZoneQueue(self._rates.normal, now))
        return found.queue

    def state(self, zone: tuple[str, str]) -> ZoneState | None:
        found = self._zones.get(zone)
        return found.state if found is not None else None

    def remove(self, name: str) -> None:
        """The node is no more, or may have moved to another zone."""
        for zone in self._zones.values():
            zone.queue.remove(name)

    def queues(self) -> Iterable[ZoneQueue]:
        return [zone.queue for zone in self._zones.values()]

    def judge(self, health: Mapping[tuple[str, str], Sequence[bool]], now: float) -> Change:
        """Set the rates for what is ready in each zone.

        While every node of every zone is out of reach, the fault is rather ours than theirs: nothing is evicted.
        """
        new = {zone: state_of(ready, self._rates) for zone, ready in health.items()}
        known = {zone: found for zone, found in self._zones.items() if zone in new}
        if not new:
            return Change.NONE
        all_are = all(state is ZoneState.FULL for state in new.values())
        all_were = bool(known) and all(found.state is ZoneState.FULL for found in known.values())
        if all_are and all_were:
            return Change.NONE
        for zone, found in known.items():
            if all_are:
                found.queue.set_rate(0.0, now)
            elif all_were or found.state is not new[zone]:
                found.queue.set_rate(self._rates.of(new[zone], len(health[zone])), now)
            found.state = new[zone]
        if all_are:
            return Change.LOST_ALL
        return Change.FOUND_SOME if all_were else Change.NONE


class Change(Enum):
    NONE = 0
    LOST_ALL = 1
    """No node is ready any more: stop evicting."""
    FOUND_SOME = 2
    """Some are ready again: give all of them time to be seen."""


__all__ = ["EXCLUDED", "Change", "Rates", "Zone", "ZoneQueue", "ZoneState", "Zones", "state_of", "zone_of"]
