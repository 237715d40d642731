"""The change tracker: follows Services and EndpointSlices, and returns what changed for the proxy since the last sync.

Many changes of objects mean nothing for a proxy (labels, annotations, the readiness gates of a pod), and several
changes of a service between two syncs are one. The work of a sync therefore depends on the services that changed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from sampan.api.limits import NODE_SERVICE_PAIRS, SERVICE_FREE_PAIRS
from sampan.api.types.core_v1 import Node, Service
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.machinery.object_key import NamespacedName, key_of
from sampan.network.proxy.service_resolution import ResolvedService, resolve
from sampan.network.proxy.services import FAMILIES, ZONE, ServicePortState, Topology, service_of_slice

TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"
"""The annotation of a slice with the time of the pod or service change that led to its last update."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceChange:
    """What changed for a service since the last sync, in all IP families. Deleted services have no current ports."""

    service: NamespacedName
    previous: tuple[ServicePortState, ...]
    current: tuple[ServicePortState, ...]
    problems: tuple[str, ...] = ()
    """Why the service has fewer ports or endpoints than its objects say, as messages for its author."""
    trigger_times: tuple[datetime, ...] = ()
    """When the changes of endpoints were caused, for the network programming latency."""


class ServiceTracker:
    """Follows the objects. `on_service`, `on_slice` and `on_node` are handlers for informers.

    `notify` is called when a change is waiting for `take_changes`.
    """

    def __init__(
        self, *, node_name: str, families: Iterable[str] = FAMILIES, notify: Callable[[], None] = lambda: None
    ) -> None:
        self._families = tuple(families)
        self._topology = Topology(node_name=node_name)
        self._notify = notify
        self._objects: dict[NamespacedName, Service] = {}
        self._slices: dict[NamespacedName, dict[str, EndpointSlice]] = {}
        """Slices by the name of their service and their own name."""
        self._pending: dict[NamespacedName, list[datetime]] = {}
        """Services with changes that were not taken, and the times of the triggers of these changes."""
        self._states: dict[NamespacedName, tuple[ServicePortState, ...]] = {}
        self._excess_pairs: dict[NamespacedName, int] = {}
        """The pairs of ports and addresses or endpoints of services that have very many, which a node bounds."""
        self._all_excess_pairs = 0
        self._limited: set[NamespacedName] = set()
        """Services that have fewer ports or endpoints than their objects say."""

    @property
    def services(self) -> Mapping[NamespacedName, tuple[ServicePortState, ...]]:
        """The service ports as of the last `take_changes`. Services without proxied ports are absent."""
        return self._states

    @property
    def topology(self) -> Topology:
        return self._topology

    @property
    def pending_count(self) -> int:
        return len(self._pending)

    # -- changes of objects ------------------------------------------------------------------------------------------

    def on_service(self, old: Service | None, new: Service | None) -> None:
        service = new if new is not None else old
        assert service is not None
        key = key_of(service)
        if new is None:
            self._objects.pop(key, None)
        else:
            self._objects[key] = new
        self._mark(key)

    def on_slice(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        before = service_of_slice(old) if old is not None else None
        after = service_of_slice(new) if new is not None else None
        if old is not None and before is not None and before != after:
            slices = self._slices.get(before, {})
            slices.pop(old.metadata.name, None)
            if not slices:
                self._slices.pop(before, None)
            self._mark(before)
        if new is not None and after is not None:
            self._slices.setdefault(after, {})[new.metadata.name] = new
            self._mark(after, _trigger_time(new))

    def on_node(self, old: Node | None, new: Node | None) -> None:
        """Follow the zone of the proxy's own node; other nodes are ignored."""
        if new is None or new.metadata.name != self._topology.node_name:
            return
        topology = Topology(node_name=self._topology.node_name, zone=new.metadata.labels.get(ZONE, ""))
        if topology != self._topology:
            self._topology = topology
            for key in self._objects:
                self._pending.setdefault(key, [])
            self._notify()

    def _mark(self, key: NamespacedName, trigger: datetime | None = None) -> None:
        triggers = self._pending.setdefault(key, [])
        if trigger is not None:
            triggers.append(trigger)
        self._notify()

    # -- syncs -------------------------------------------------------------------------------------------------------

    def take_changes(self, limit: int | None = None) -> list[ServiceChange]:
        """Return the services whose ports or endpoints differ from those at the previous call; at most `limit` services
        are compared, and the others stay pending."""
        if not self._states:
            self._pending = dict(sorted(self._pending.items(), key=lambda item: self._created(item[0])))
        keys = list(itertools.islice(self._pending, limit))
        changes = []
        for key in keys:
            triggers = self._pending.pop(key)
            previous, resolved = self._states.get(key, ()), self._resolve(key)
            current = resolved.ports
            if current == previous:
                continue
            if current:
                self._states[key] = current
            else:
                self._states.pop(key, None)
            changes.append(
                ServiceChange(
                    service=key,
                    previous=previous,
                    current=current,
                    problems=resolved.problems,
                    trigger_times=tuple(triggers),
                )
            )
        return changes

    def _created(self, key: NamespacedName) -> str:
        """Return when a service was created: at the start, older services precede newer ones."""
        service = self._objects.get(key)
        return (service.metadata.creationTimestamp or "") if service is not None else ""

    def _resolve(self, key: NamespacedName) -> ResolvedService:
        service = self._objects.get(key)
        before = self._excess_pairs.pop(key, 0)
        self._all_excess_pairs -= before
        self._limited.discard(key)
        resolved = ResolvedService()
        if service is not None:
            slices = list(self._slices.get(key, {}).values())
            room = max(0, NODE_SERVICE_PAIRS - self._all_excess_pairs) + SERVICE_FREE_PAIRS
            resolved = resolve(service, slices, self._families, self._topology, room)
        self._account(key, before, resolved)
        return resolved

    def _account(self, key: NamespacedName, before: int, resolved: ResolvedService) -> None:
        """Count the pairs of a service. If it needs fewer than before, others that need more can have them."""
        count = resolved.excess_pairs
        if count:
            self._excess_pairs[key] = count
            self._all_excess_pairs += count
        if count < before:
            for limited in self._limited:
                self._pending.setdefault(limited, [])
        if resolved.problems:
            self._limited.add(key)


def _trigger_time(slice: EndpointSlice) -> datetime | None:
    text = slice.metadata.annotations.get(TRIGGER_TIME)
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError:
        return None


class ServiceObserver(Protocol):
    """Is called by the runner of a proxy after each successful sync, with the changes that the sync applied.

    The first call has all services. Calls do not overlap. An observer reports its own failures (log, event), because a
    failure of an observer must not stop the sync of the packet rules.
    """

    async def on_changes(self, changes: Sequence[ServiceChange]) -> None: ...
