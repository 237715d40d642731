"""The change tracker: follows Services and EndpointSlices, and returns what changed for the proxy since the last sync.

Many changes of objects mean nothing for a proxy (labels, annotations, the readiness gates of a pod), and several
changes of a service between two syncs are one. The work of a sync therefore depends on the services that changed.

`categorize` selects the endpoints that this node uses for each traffic policy; `resolve` does that for all ports of a
service. Both are pure.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from sampan.api.limits import NODE_SERVICE_PAIRS, SERVICE_FREE_PAIRS
from sampan.api.types.core_v1 import Node, Service
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.machinery.object_key import NamespacedName, key_of
from sampan.network.proxy.services import (
    FAMILIES,
    ZONE,
    EndpointCategories,
    EndpointInfo,
    ProxyTopology,
    ServicePortInfo,
    ServicePortState,
    count_addresses,
    endpoints_by_port,
    service_of_slice,
    service_ports,
)

TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"
"""The annotation of a slice with the time of the pod or service change that led to its last update."""


class ResolvedService(NamedTuple):
    """The ports of a service on a node."""

    ports: tuple[ServicePortState, ...] = ()
    problems: tuple[str, ...] = ()
    """Why the service has fewer ports or endpoints than its objects say, as messages for its author."""

    @property
    def excess_pairs(self) -> int:
        """The number of pairs of a port with an address, source range or endpoint beyond the number that every service
        may have.

        The pairs of a service with a single port do not count, because they are no more than the addresses and
        endpoints in its objects.
        """
        if len(self.ports) < 2:
            return 0
        return max(
            0, sum(count_addresses(state.info) + len(state.endpoints) for state in self.ports) - SERVICE_FREE_PAIRS
        )


def resolve(
    service: Service,
    slices: Sequence[EndpointSlice],
    families: Iterable[str],
    topology: ProxyTopology,
    pair_budget: int = NODE_SERVICE_PAIRS,
) -> ResolvedService:
    """Return the ports of a service with the endpoints that a node with this topology uses. `pair_budget` is the number
    of pairs of ports and addresses or endpoints that the node has left."""
    infos = service_ports(service, families, pair_budget)
    counts = Counter(info.family for info in infos)
    by_family = {family: endpoints_by_port(slices, family, topology.node_name, pair_budget) for family in counts}
    states = []
    for info in infos:
        endpoints = by_family[info.family].endpoints.get((info.name.port, info.protocol), ())
        states.append(ServicePortState(info, endpoints, categorize(info, endpoints, topology)))
    problems = []
    if any(count < len(service.spec.ports) for count in counts.values()):
        maximum = f"only {max(counts.values())} of its {len(service.spec.ports)} ports are proxied"
        problems.append(f"Too many pairs of ports with addresses and source ranges: {maximum}")
    if not all(by_port.is_complete for by_port in by_family.values()):
        problems.append("Too many pairs of ports and endpoints: some ports have no endpoints, or not all of them")
    return ResolvedService(tuple(states), tuple(problems))


def categorize(info: ServicePortInfo, endpoints: Sequence[EndpointInfo], topology: ProxyTopology) -> EndpointCategories:
    """Select the endpoints for each traffic policy that a service port uses.

    Ready endpoints are used; without any, those that terminate and still serve, independently for both policies. Hints
    restrict the policy Cluster only if every ready endpoint has them and one of them is for this node or zone.
    """
    ready = tuple(endpoint for endpoint in endpoints if endpoint.is_ready)
    draining = tuple(e for e in endpoints if not e.is_ready and e.is_serving and e.is_terminating)
    cluster: tuple[EndpointInfo, ...] = ()
    local: tuple[EndpointInfo, ...] = ()
    if info.uses_cluster_endpoints:
        cluster = _select_by_hints(ready, topology) or draining
    if info.uses_local_endpoints:
        local = tuple(e for e in ready if e.is_local) or tuple(e for e in draining if e.is_local)
    return EndpointCategories(cluster, local, _union(cluster, local), bool(ready or draining))


def _select_by_hints(ready: tuple[EndpointInfo, ...], topology: ProxyTopology) -> tuple[EndpointInfo, ...]:
    """Return the ready endpoints whose hints are for this node, or else for this zone, or else all of them."""
    on_node = tuple(endpoint for endpoint in ready if topology.node_name in endpoint.node_hints)
    if on_node and all(endpoint.node_hints for endpoint in ready):
        return on_node
    in_zone = tuple(endpoint for endpoint in ready if topology.zone in endpoint.zone_hints)
    if in_zone and all(endpoint.zone_hints for endpoint in ready):
        return in_zone
    return ready


def _union(cluster: tuple[EndpointInfo, ...], local: tuple[EndpointInfo, ...]) -> tuple[EndpointInfo, ...]:
    if not local or not cluster:
        return cluster or local
    extra = [endpoint for endpoint in local if endpoint not in cluster]
    return tuple(sorted([*cluster, *extra], key=lambda e: (e.address, e.port))) if extra else cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceChange:
    """What changed for a service since the last sync, in all IP families. Deleted services have no current ports."""

    service: NamespacedName
    previous: tuple[ServicePortState, ...]
    current: tuple[ServicePortState, ...]
    problems: tuple[str, ...] = ()
    """Why the service has fewer ports or endpoints than its objects say, as messages for its author."""
    trigger_times: tuple[datetime, ...] = ()
    """The times of the changes that triggered updates of endpoints, for the network programming latency."""


class ServiceTracker:
    """Follows the objects. `on_service`, `on_slice` and `on_node` are handlers for informers.

    `notify` is called when a change is waiting for `take_changes`.
    """

    def __init__(
        self, *, node_name: str, families: Iterable[str] = FAMILIES, notify: Callable[[], None] = lambda: None
    ) -> None:
        self._families = tuple(families)
        self._topology = ProxyTopology(node_name=node_name)
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
    def topology(self) -> ProxyTopology:
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
        topology = ProxyTopology(node_name=self._topology.node_name, zone=new.metadata.labels.get(ZONE, ""))
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
            self._pending = dict(sorted(self._pending.items(), key=lambda item: self._creation_time(item[0])))
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

    def _creation_time(self, key: NamespacedName) -> str:
        """Return the creation time of a service, by which services are sorted at the start: older ones come first."""
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
            pair_budget = max(0, NODE_SERVICE_PAIRS - self._all_excess_pairs) + SERVICE_FREE_PAIRS
            resolved = resolve(service, slices, self._families, self._topology, pair_budget)
        self._count_excess_pairs(key, before, resolved)
        return resolved

    def _count_excess_pairs(self, key: NamespacedName, before: int, resolved: ResolvedService) -> None:
        """Update the number of pairs of a service. If it needs fewer than before, services that need more can have
        them."""
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
    """An observer that a proxy calls after each successful sync, with the changes that the sync applied.

    The first call has all services. Calls do not overlap. An observer reports its own failures (log, event), because a
    failure of an observer must not stop the sync of the packet rules.
    """

    async def on_changes(self, changes: Sequence[ServiceChange]) -> None: ...
