"""node-route-controller, which maintains the cloud routes from pod CIDRs to nodes."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sampan.api.semantics.conditions import FALSE, TRUE, find_condition
from sampan.api.types.core_v1 import Node, ObjectReference
from sampan.api.values import times
from sampan.controllers.cloud import CloudRoute, CloudRoutes
from sampan.controllers.descriptor import ControllerContext
from sampan.controllers.fan_out import try_each
from sampan.controllers.nodes.cidr_sets import Network, network_of
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.events import WARNING, EventRecorder
from sampan.machinery.informer import InformerFactory

log = logging.getLogger(__name__)

NETWORK_UNAVAILABLE = "NetworkUnavailable"
_ALL = ""


@dataclass(slots=True)
class RoutePlan:
    create: list[CloudRoute] = field(default_factory=list)
    delete: list[CloudRoute] = field(default_factory=list)


def plan(nodes: Iterable[Node], routes: Sequence[CloudRoute], cluster: Sequence[Network]) -> RoutePlan:
    """Return the missing routes and the obsolete ones. Routes outside the cluster CIDRs are left alone."""
    desired = {(node.metadata.name, cidr) for node in nodes for cidr in node.spec.podCIDRs}
    present = {(route.node, route.cidr) for route in routes if not route.is_blackhole}
    result = RoutePlan([CloudRoute(node=node, cidr=cidr) for node, cidr in sorted(desired - present)])
    result.delete = [
        route
        for route in routes
        if _is_ours(route, cluster) and (route.is_blackhole or (route.node, route.cidr) not in desired)
    ]
    return result


def _is_ours(route: CloudRoute, cluster: Sequence[Network]) -> bool:
    network = network_of(route.cidr)
    return any(network.version == cidr.version and network.subnet_of(cidr) for cidr in cluster)  # type: ignore[arg-type]


class RouteController:
    name = "node-route-controller"
    initial_keys = (_ALL,)

    def __init__(
        self,
        *,
        client: Client,
        informers: InformerFactory,
        events: EventRecorder,
        routes: CloudRoutes,
        clock: Clock,
        cluster: Sequence[Network],
        period_s: float,
    ) -> None:
        self._client, self._events, self._routes = client.for_kind(Node), events, routes
        self._clock, self._cluster, self._period_s = clock, cluster, period_s
        self._nodes = informers.for_kind(Node).lister
        self.watches = (Watch(resource_of(Node)),)

    async def reconcile(self, key: str) -> float:
        nodes = list(self._nodes)
        changes = plan(nodes, await self._routes.list(), self._cluster)
        failed: set[str] = set()

        async def create(route: CloudRoute) -> None:
            try:
                await self._create(route)
            except Exception:
                failed.add(route.node)
                raise

        failures: list[tuple[CloudRoute | Node, Exception]] = [
            *await try_each(changes.delete, self._routes.delete),
            *await try_each(changes.create, create),
            *await try_each(
                nodes, lambda node: self._set_network_condition(node, has_routes=node.metadata.name not in failed)
            ),
        ]
        for item, error in failures:
            name = item.node if isinstance(item, CloudRoute) else item.metadata.name
            log.warning("%s failed for node %s: %s; retrying in %g s", self.name, name, error, self._period_s)
        return self._period_s

    async def _create(self, route: CloudRoute) -> None:
        node, began = self._nodes.get(route.node), self._clock.monotonic()
        uid = node.metadata.uid if node is not None else ""
        try:
            await self._routes.create(route, hint=uid)
        except Exception as error:
            took = f"{self._clock.monotonic() - began:g}s"
            message = f"Could not create route {uid} {route.cidr} for node {route.node} after {took}: {error}"
            reference = ObjectReference(kind="Node", name=route.node, uid=route.node)
            self._events.event(reference, WARNING, "FailedToCreateRoute", message)
            raise

    async def _set_network_condition(self, node: Node, *, has_routes: bool) -> None:
        """Set the NetworkUnavailable condition of the node. It is true for a node without pod CIDRs."""
        if not node.spec.podCIDRs:
            has_routes = False
        status = FALSE if has_routes else TRUE
        present = find_condition(node.status.conditions, NETWORK_UNAVAILABLE)
        if present is not None and present.status == status:
            return
        stamp = times.format_time(self._clock.now())
        condition = {
            "type": NETWORK_UNAVAILABLE,
            "status": status,
            "reason": "RouteCreated" if has_routes else "NoRouteCreated",
            "message": f"RouteController {'created a' if has_routes else 'failed to create a'} route",
            "lastHeartbeatTime": stamp,
            "lastTransitionTime": stamp,
        }
        try:
            await self._client.patch(node.metadata.name, {"status": {"conditions": [condition]}}, subresource="status")
        except errors.NotFound:
            return


def make(context: ControllerContext) -> RouteController | None:
    config = context.config
    routes = config.cloud.routes if config.cloud is not None else None
    if routes is None or not config.configure_cloud_routes or not config.allocate_node_cidrs:
        return None
    cluster = [network_of(text) for text in config.cluster_cidr]
    return context.build(RouteController, routes=routes, cluster=cluster, period_s=config.route_reconciliation_period_s)
