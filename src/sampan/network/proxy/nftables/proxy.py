"""The proxy of one node in nftables mode, which keeps the tables of the node in step with services.

The event loop follows the objects; a thread in the network namespace of the node compiles and commits.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from sampan.api.semantics.nodes import internal_addresses
from sampan.api.types.core_v1 import Node, ObjectReference, Service
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.api.types.networking_v1 import ServiceCIDR
from sampan.host.clock import Clock
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.host.netlink.nftables import TransactionFailed
from sampan.machinery.client.options import Selection
from sampan.machinery.events import WARNING, EventRecorder
from sampan.machinery.informer import Informer, InformerFactory
from sampan.machinery.object_key import NamespacedName
from sampan.network.proxy.conntrack import node_addresses
from sampan.network.proxy.health import ProxyHealth
from sampan.network.proxy.kube_proxy_configuration import PRIMARY
from sampan.network.proxy.metrics import ProxyMetrics
from sampan.network.proxy.nftables.proxy_table import ForeignTable, RefusedServices, RulesetGeneration
from sampan.network.proxy.nftables.table_sync import TableSync
from sampan.network.proxy.proxy_config import NodeFacts, ProxyConfig, node_facts
from sampan.network.proxy.services import HEADLESS, SERVICE_PROXY_NAME, ServicePortState
from sampan.network.proxy.tracker import ServiceChange, ServiceObserver, ServiceTracker

log = logging.getLogger(__name__)

T = TypeVar("T")

PROXIED = Selection(labels=f"!{SERVICE_PROXY_NAME},!{HEADLESS}")
"""Services and slices that are of concern to this proxy."""
CHECK_S = 2.0
"""The time between two checks whether another program has changed rules."""
_RETRY_S = 5.0
_CHANGE_BATCH_SIZE = 200
REFUSED_REASON = "ProxyRulesRefused"
"""The reason of the event about a service whose rules the kernel refuses."""


class NftablesProxy:
    """The nftables proxy of one node. `run()` proxies until it is cancelled.

    The rules stay in the kernel afterwards, so that a restart interrupts nothing, unless `ProxyConfig.removes_rules` is
    set.
    """

    def __init__(
        self,
        *,
        node_name: str,
        namespace: NetworkNamespace,
        informers: InformerFactory,
        nodes: Informer[Node],
        clock: Clock,
        config: ProxyConfig,
        metrics: ProxyMetrics,
        health: ProxyHealth,
        events: EventRecorder,
        observers: Sequence[ServiceObserver] = (),
    ) -> None:
        """Create the proxy. `nodes` has at least the node of the proxy."""
        self._node_name, self._clock, self._config = node_name, clock, config
        self._informers, self._nodes = informers, nodes
        self._metrics, self._health, self._events, self._observers = metrics, health, events, observers
        self._thread = namespace.executor(f"kube-proxy {node_name}")
        self._tracker = ServiceTracker(node_name=node_name, families=config.families, notify=self._on_change)
        generation = RulesetGeneration()
        self._tables = [
            TableSync(family=family, config=config, generation=generation, monotonic=clock.monotonic)
            for family in config.families
        ]
        self._wake = asyncio.Event()
        self._is_check_due = False
        self._audit_due = clock.monotonic() + config.audit_period_s
        self._syncs_paid_until = 0.0
        """The monotonic time up to which the syncs so far have used up the minimum sync periods."""
        self._retry_due: float | None = None
        """The monotonic time at which a failed sync is tried again."""
        self._node: Node | None = None
        self._service_cidrs: dict[str, Sequence[str]] = {}
        self._local_addresses: Sequence[str] = ()
        """The addresses of the node's interfaces, if node ports depend on them."""
        self._addresses_due = clock.monotonic()
        """The monotonic time at which the addresses of the interfaces are read again."""
        self._synced_facts: dict[str, NodeFacts] | None = None
        """The facts of the last successful sync by IP family."""
        self._unobserved: list[ServiceChange] = []
        """Changes that the observers have not received yet, because the sync of these changes has failed."""
        self._without_local_endpoints: dict[NamespacedName, tuple[ServicePortState, ...]] = {}
        self._refused: dict[tuple[str, NamespacedName], str] = {}
        self._errors: dict[str, str] = {}
        """The last error of each IP family whose rules cannot be written."""
        self.synced = asyncio.Event()
        """Set after the first successful sync of all IP families."""

    # -- objects -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        services, slices = self._informers.for_kind(Service, PROXIED), self._informers.for_kind(EndpointSlice, PROXIED)
        cidrs = self._informers.for_kind(ServiceCIDR)
        stops: list[Callable[[], None]] = []
        try:
            for informer in (self._nodes, slices, services, cidrs):
                await informer.synced.wait()
            stops += [await self._nodes.follow(self._on_node), await cidrs.follow(self._on_service_cidr)]
            stops += [await slices.follow(self._on_slice), await services.follow(self._on_service)]
            await self._run_in_thread(self._read_addresses)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._tick())
                group.create_task(self._serve())
        finally:
            for stop in stops:
                stop()
            await asyncio.shield(self._run_in_thread(self._close))
            self._thread.shutdown(wait=False)

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        self._health.on_node(old, new)
        self._tracker.on_node(old, new)
        if new is not None and new.metadata.name == self._node_name:
            self._node = new
            if old is None or _addresses_of(old) != _addresses_of(new) or old.spec.podCIDRs != new.spec.podCIDRs:
                self._wake.set()

    def _on_service_cidr(self, old: ServiceCIDR | None, new: ServiceCIDR | None) -> None:
        if old is not None:
            self._service_cidrs.pop(old.metadata.name, None)
        if new is not None:
            self._service_cidrs[new.metadata.name] = new.spec.cidrs
        self._wake.set()

    def _on_service(self, old: Service | None, new: Service | None) -> None:
        self._metrics.on_service_change()
        self._tracker.on_service(old, new)

    def _on_slice(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        self._metrics.on_endpoint_change()
        self._tracker.on_slice(old, new)

    def _on_change(self) -> None:
        self._wake.set()
        self._metrics.on_queued()
        for family in self._config.families:
            self._health.on_queued(family)

    # -- syncs -------------------------------------------------------------------------------------------------------

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(CHECK_S)
            self._is_check_due = True
            self._wake.set()

    async def _serve(self) -> None:
        while True:
            self._wake.clear()
            if await self._step():
                await self._clock.sleep(self._pause_s())
            await self._wake.wait()

    def _pause_s(self) -> float:
        """Return how long the next sync must wait. Two syncs may follow each other at once, as a new service and then
        its load balancer address do; on average there is one in each period."""
        now, period_s = self._clock.monotonic(), self._config.min_sync_period_s
        self._syncs_paid_until = max(self._syncs_paid_until, now) + period_s
        return max(0.0, self._syncs_paid_until - now - period_s)

    async def _step(self) -> bool:
        """Check the rules and sync if that is due, and return whether there was a sync."""
        is_damaged = False
        if self._is_check_due and self.synced.is_set():
            self._is_check_due = False
            is_damaged = not await self._run_in_thread(self._check)
        changes = await self._take_changes()
        is_retry_due = self._retry_due is not None and self._clock.monotonic() >= self._retry_due
        facts = {table.family: self._facts(table.family) for table in self._tables}
        if not (changes or is_damaged or is_retry_due or facts != self._synced_facts):
            return False
        await self._sync(changes, facts)
        return True

    async def _take_changes(self) -> list[ServiceChange]:
        """Return all changes since the last call. Other tasks run in between if there are many."""
        changes: list[ServiceChange] = []
        while self._tracker.pending_count:
            changes += self._tracker.take_changes(limit=_CHANGE_BATCH_SIZE)
            await asyncio.sleep(0)
        self._metrics.on_taken()
        return changes

    def _facts(self, family: str) -> NodeFacts:
        node = self._node
        return node_facts(
            self._config,
            family,
            node_ips=_addresses_of(node) if node is not None else (),
            pod_cidrs=node.spec.podCIDRs if node is not None else (),
            local_addresses=self._local_addresses,
            service_cidrs=[cidr for name in sorted(self._service_cidrs) for cidr in self._service_cidrs[name]],
        )

    async def _sync(self, changes: list[ServiceChange], facts: dict[str, NodeFacts]) -> None:
        self._unobserved += changes
        services = dict(self._tracker.services)
        changed = frozenset(change.service for change in self._unobserved)
        is_complete = True
        for table in self._tables:
            start = self._clock.monotonic()
            try:
                result = await self._run_in_thread(partial(table.sync, facts[table.family], services, changed))
            except (TransactionFailed, ForeignTable, OSError) as error:
                is_complete = False
                self._on_failure(table.family, str(error))
                continue
            self._errors.pop(table.family, None)
            self._report(table.family, result.refused)
            duration_s = self._clock.monotonic() - start
            self._metrics.on_synced(
                duration_s=duration_s,
                is_full=result.is_full,
                changes=changes if self.synced.is_set() else (),  # earlier changes are no latency
                family=table.family,
            )
            self._health.on_synced(table.family)
        is_retried = not is_complete or bool(self._refused)
        self._retry_due = self._clock.monotonic() + self._retry_s(is_complete) if is_retried else None
        if is_complete:
            self._synced_facts = facts
            await self._notify_observers()
            self.synced.set()

    def _on_failure(self, family: str, error: str) -> None:
        self._metrics.on_failed(family)
        if self._errors.get(family) != error:
            self._errors[family] = error
            log.error("cannot write the rules of %s services: %s; retrying", family, error)

    def _retry_s(self, is_complete: bool) -> float:
        return self._config.sync_period_s if is_complete else min(_RETRY_S, self._config.sync_period_s)

    def _report(self, family: str, refused: RefusedServices) -> None:
        """Report services that the kernel newly refuses."""
        for service, error in refused.items():
            if self._refused.get((family, service)) != error:
                message = f"The rules of the service are refused by nftables ({family}): {error}"
                log.error("service %s: the kernel refuses its %s rules: %s", service, family, error)
                reference = ObjectReference(
                    apiVersion="v1", kind="Service", namespace=service.namespace, name=service.name
                )
                self._events.event(reference, WARNING, REFUSED_REASON, message)
        others = {key: error for key, error in self._refused.items() if key[0] != family}
        self._refused = others | {(family, service): error for service, error in refused.items()}

    async def _notify_observers(self) -> None:
        changes, self._unobserved = self._unobserved, []
        for change in changes:
            if any(_is_without_local_endpoints(state) for state in change.current):
                self._without_local_endpoints[change.service] = change.current
            else:
                self._without_local_endpoints.pop(change.service, None)
        states = self._without_local_endpoints.values()
        self._metrics.show_without_local_endpoints(state for ports in states for state in ports)
        for observer in self._observers:
            try:
                await observer.on_changes(changes)
            except Exception:
                log.exception("%s failed after a sync of services", type(observer).__name__)

    # -- in the thread -----------------------------------------------------------------------------------------------

    async def _run_in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    def _check(self) -> bool:
        """Return whether the rules of all IP families are complete."""
        is_audit_due = self._clock.monotonic() >= self._audit_due
        if is_audit_due:
            self._audit_due = self._clock.monotonic() + self._config.audit_period_s
        self._read_addresses()
        is_changed = self._tables[0].detect_foreign_change()
        results = [self._check_table(table, is_changed, is_audit_due) for table in self._tables]
        return all(results)

    def _read_addresses(self) -> None:
        """Read the addresses of the node's interfaces, if node ports depend on them and it is due."""
        cidrs = self._config.node_port_addresses
        if not cidrs or PRIMARY in cidrs or self._clock.monotonic() < self._addresses_due:
            return
        self._addresses_due = self._clock.monotonic() + self._config.sync_period_s
        families = (socket.AF_INET, socket.AF_INET6)
        self._local_addresses = [address for family in families for address in node_addresses(family)]

    def _check_table(self, table: TableSync, is_changed: bool, is_audit_due: bool) -> bool:
        try:
            table.delete_stale_chains()
        except TransactionFailed as failure:
            self._metrics.on_cleanup_failed(table.family)
            log.warning("cannot delete chains without references: %s", failure)
            is_changed = True
        if is_audit_due and not table.audit():
            return False
        return not is_changed or table.check()

    def _close(self) -> None:
        for table in self._tables:
            try:
                if self._config.removes_rules:
                    table.remove()
            except (TransactionFailed, OSError) as error:
                log.warning("cannot remove the rules of %s services: %s", table.family, error)
            finally:
                table.close()


def _addresses_of(node: Node) -> list[str]:
    return [str(address) for address in internal_addresses(node)]


def _is_without_local_endpoints(state: ServicePortState) -> bool:
    return state.info.uses_local_endpoints and state.categories.has_any and not state.categories.local
