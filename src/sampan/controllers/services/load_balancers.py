"""service-lb-controller, which provisions load balancers for services of type LoadBalancer at the cloud provider.

A finalizer keeps the service until its load balancer is deleted. The last state requested from the provider is
remembered: a changed spec ensures the load balancer again, changed nodes only update its backends.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from sampan.api.types.core_v1 import LoadBalancerStatus, Node, Service
from sampan.controllers.cloud import LoadBalancers
from sampan.controllers.descriptor import ControllerContext
from sampan.machinery import errors
from sampan.machinery.client import Client, PatchType, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.copies import copy_of
from sampan.machinery.events import NORMAL, WARNING, EventRecorder
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of

FINALIZER: Final = "service.kubernetes.io/load-balancer-cleanup"
EXCLUDED: Final = "node.kubernetes.io/exclude-from-external-load-balancers"
GOING: Final = "ToBeDeletedByClusterAutoscaler"


@dataclass(frozen=True, slots=True)
class RequestedBalancer:
    """The state last requested from the provider."""

    uid: str
    spec: bytes
    hosts: frozenset[str]


def wants_load_balancer(service: Service) -> bool:
    """Whether this controller must provision a load balancer. Services with a loadBalancerClass are left to others."""
    is_asked = service.spec.type == "LoadBalancer" and service.spec.loadBalancerClass is None
    return is_asked and service.metadata.deletionTimestamp is None


def is_host(node: Node) -> bool:
    """Whether the node is a backend of load balancers. Readiness is left to their own health checks."""
    meta = node.metadata
    is_going = any(taint.key == GOING for taint in node.spec.taints)
    return meta.deletionTimestamp is None and EXCLUDED not in meta.labels and not is_going


def spec_of(service: Service) -> bytes:
    """Return the parts of a service that its load balancer may depend on."""
    annotations = sorted(service.metadata.annotations.items())
    return msgspec.json.encode([service.spec, annotations])


def changes(old: Service | None, new: Service | None) -> Iterable[tuple[str, str]]:
    """Yield reason and message of the events for changes that matter to load balancers."""
    if old is None or new is None or not any(value.spec.type == "LoadBalancer" for value in (old, new)):
        return
    before, now = old.spec, new.spec
    pairs: list[tuple[str, Any, Any]] = [
        ("Type", before.type, now.type),
        ("LoadBalancerSourceRanges", before.loadBalancerSourceRanges, now.loadBalancerSourceRanges),
        ("LoadbalancerIP", before.loadBalancerIP, now.loadBalancerIP),
        ("ExternalTrafficPolicy", before.externalTrafficPolicy, now.externalTrafficPolicy),
        ("HealthCheckNodePort", before.healthCheckNodePort, now.healthCheckNodePort),
    ]
    for reason, value, other in pairs:
        if value != other:
            yield reason, f"{_format_value(value)} -> {_format_value(other)}"


def _format_value(value: Any) -> str:
    return f"[{' '.join(value)}]" if isinstance(value, list) else str(value)


def by_load_balancer(service: Any) -> Iterable[Hashable]:
    return (True,) if service.spec.type == "LoadBalancer" else ()


class LoadBalancerController:
    name = "service-lb-controller"

    def __init__(
        self, *, client: Client, informers: InformerFactory, events: EventRecorder, balancers: LoadBalancers
    ) -> None:
        self._client, self._events, self._balancers = client.for_kind(Service), events, balancers
        self._service_informer, self._node_informer = informers.for_kind(Service), informers.for_kind(Node)
        self._services, self._nodes = self._service_informer.lister, self._node_informer.lister
        self._services.add_index(by_load_balancer)
        self._requested: dict[NamespacedName, RequestedBalancer] = {}
        self.watches = (
            Watch(resource_of(Service), lambda service: (key_of(service),)),
            Watch(resource_of(Node)),
        )

    def feed(self, add: Any) -> None:
        """Subscribe to nodes and services. A node that starts or ceases to be a backend concerns all load balancers."""

        def node_changed(old: Node | None, new: Node | None) -> None:
            if (old is not None and is_host(old)) != (new is not None and is_host(new)):
                for service in self._services.find(by_load_balancer, True):
                    add(key_of(service))

        def service_changed(old: Service | None, new: Service | None) -> None:
            for reason, message in changes(old, new):
                self._events.event(new, NORMAL, reason, message)

        self._node_informer.subscribe(node_changed)
        self._service_informer.subscribe(service_changed)

    async def reconcile(self, key: NamespacedName) -> None:
        service = self._services.get_by_key(key)
        if service is None:
            self._requested.pop(key, None)
            return
        try:
            if wants_load_balancer(service):
                await self._ensure_balancer(key, service)
            elif FINALIZER in service.metadata.finalizers:
                await self._delete_balancer(key, service)
        except errors.Conflict:
            raise
        except Exception as error:
            self._record_event(service, WARNING, "SyncLoadBalancerFailed", f"Error syncing load balancer: {error}")
            raise

    async def _ensure_balancer(self, key: NamespacedName, service: Service) -> None:
        nodes = [node for node in self._nodes if is_host(node)]
        desired = RequestedBalancer(
            service.metadata.uid, spec_of(service), frozenset(node.metadata.name for node in nodes)
        )
        current = self._requested.get(key)
        if current == desired:
            return
        if current is None or (current.uid, current.spec) != (desired.uid, desired.spec):
            await self._ensure(service, nodes, is_resumed=current is None and _is_served(service))
        else:
            await self._update(service, nodes)
        self._requested[key] = desired

    async def _ensure(self, service: Service, nodes: Sequence[Node], *, is_resumed: bool) -> None:
        """Ensure the load balancer and update the status.

        With `is_resumed` (the first sync after a restart of a service that has one) no events are recorded if nothing
        changes.
        """
        if not is_resumed:
            self._record_event(service, NORMAL, "EnsuringLoadBalancer", "Ensuring load balancer")
        if FINALIZER not in service.metadata.finalizers:
            service = await self._finalizers(service, [*service.metadata.finalizers, FINALIZER])
        if not nodes:
            self._record_event(
                service, WARNING, "UnAvailableLoadBalancer", "There are no available nodes for LoadBalancer"
            )
        try:
            status = await self._balancers.ensure(copy_of(service), nodes)
        except Exception as error:
            raise RuntimeError(f"failed to ensure load balancer: {error}") from error
        is_new = status != service.status.loadBalancer
        if is_new:
            await self._write_status(service, status)
        if is_new or not is_resumed:
            self._record_event(service, NORMAL, "EnsuredLoadBalancer", "Ensured load balancer")

    async def _update(self, service: Service, nodes: Sequence[Node]) -> None:
        if not nodes:
            self._record_event(
                service, WARNING, "UnAvailableLoadBalancer", "There are no available nodes for LoadBalancer"
            )
        try:
            await self._balancers.update(copy_of(service), nodes)
        except Exception as error:
            names = " ".join(node.metadata.name for node in nodes[:50])
            message = f"Error updating load balancer with new hosts [{names}] [node names limited, total number of "
            message += f"nodes: {len(nodes)}], error: {error}"
            self._record_event(service, WARNING, "UpdateLoadBalancerFailed", message)
            raise
        self._record_event(service, NORMAL, "UpdatedLoadBalancer", "Updated load balancer with new hosts")

    async def _delete_balancer(self, key: NamespacedName, service: Service) -> None:
        if await self._balancers.get(copy_of(service)) is not None:
            self._record_event(service, NORMAL, "DeletingLoadBalancer", "Deleting load balancer")
            try:
                await self._balancers.delete(copy_of(service))
            except Exception as error:
                raise RuntimeError(f"failed to delete load balancer: {error}") from error
        self._requested.pop(key, None)
        if service.status.loadBalancer.ingress:
            service = await self._write_status(service, LoadBalancerStatus())
        await self._finalizers(
            service, [finalizer for finalizer in service.metadata.finalizers if finalizer != FINALIZER]
        )
        self._record_event(service, NORMAL, "DeletedLoadBalancer", "Deleted load balancer")

    async def _write_status(self, service: Service, status: LoadBalancerStatus) -> Service:
        return await self._patch(service, {"status": {"loadBalancer": msgspec.to_builtins(status) or None}})

    async def _finalizers(self, service: Service, finalizers: Sequence[str]) -> Service:
        """Write the finalizers through the status subresource, which is all that this controller may write."""
        meta = {"resourceVersion": service.metadata.resourceVersion, "finalizers": list(finalizers) or None}
        return await self._patch(service, {"metadata": meta})

    async def _patch(self, service: Service, patch: Any) -> Service:
        meta = service.metadata
        try:
            return await self._client.patch(
                meta.name, patch, meta.namespace, type=PatchType.MERGE, subresource="status"
            )
        except errors.NotFound:
            return service

    def _record_event(self, service: Service, type: str, reason: str, message: str) -> None:
        self._events.event(service, type, reason, message)


def _is_served(service: Service) -> bool:
    return FINALIZER in service.metadata.finalizers and bool(service.status.loadBalancer.ingress)


def make(context: ControllerContext) -> LoadBalancerController | None:
    balancers = context.config.cloud.load_balancers if context.config.cloud is not None else None
    return context.build(LoadBalancerController, balancers=balancers) if balancers is not None else None
