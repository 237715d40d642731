"""Follows the services of a cluster for a proxy without packet rules, and calls its observers after changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from sampan.api.types.core_v1 import Node, Service
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.host.clock import Clock
from sampan.machinery.informer import Informer, InformerFactory
from sampan.network.proxy.health import ProxyHealth
from sampan.network.proxy.metrics import ProxyMetrics
from sampan.network.proxy.services import FAMILIES
from sampan.network.proxy.tracker import ServiceObserver, ServiceTracker

log = logging.getLogger(__name__)


class ServiceFollower:
    """Follows services and their endpoints. `run()` calls the observers after changes until it is cancelled."""

    def __init__(
        self,
        *,
        node_name: str,
        informers: InformerFactory,
        nodes: Informer[Node],
        observers: Sequence[ServiceObserver],
        clock: Clock,
        metrics: ProxyMetrics,
        health: ProxyHealth,
        min_sync_period_s: float = 1.0,
    ) -> None:
        """Create the follower. `nodes` has at least the node of the proxy."""
        self._informers, self._nodes, self._observers, self._clock = informers, nodes, observers, clock
        self._metrics, self._health, self._min_sync_period_s = metrics, health, min_sync_period_s
        self._has_changes = asyncio.Event()
        self._tracker = ServiceTracker(node_name=node_name, notify=self._on_change)
        self.synced = asyncio.Event()
        """Set after the first sync."""

    async def run(self) -> None:
        services, slices = self._informers.for_kind(Service), self._informers.for_kind(EndpointSlice)
        stops = [
            await services.follow(self._on_service),
            await slices.follow(self._on_slice),
            await self._nodes.follow(self._tracker.on_node),
            await self._nodes.follow(self._health.on_node),
        ]
        try:
            for informer in (services, slices, self._nodes):
                await informer.synced.wait()
            while True:
                self._has_changes.clear()
                await self._sync()
                self.synced.set()
                await self._clock.sleep(self._min_sync_period_s)
                await self._has_changes.wait()
        finally:
            for stop in stops:
                stop()

    async def _sync(self) -> None:
        start = self._clock.monotonic()
        self._metrics.on_taken()
        changes = self._tracker.take_changes()
        for observer in self._observers:
            try:
                await observer.on_changes(changes)
            except Exception:
                log.exception("%s failed after a change of services", type(observer).__name__)
        duration_s = self._clock.monotonic() - start
        self._metrics.on_synced(duration_s=duration_s, is_full=not self.synced.is_set(), changes=changes)
        for family in FAMILIES:
            self._health.on_synced(family)

    def _on_service(self, old: Service | None, new: Service | None) -> None:
        self._metrics.on_service_change()
        self._tracker.on_service(old, new)

    def _on_slice(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        self._metrics.on_endpoint_change()
        self._tracker.on_slice(old, new)

    def _on_change(self) -> None:
        self._has_changes.set()
        self._metrics.on_queued()
        for family in FAMILIES:
            self._health.on_queued(family)
