"""A cloud provider in memory: instances, routes and load balancers for tests and demonstrations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from sampan.api.types.core_v1 import LoadBalancerIngress, LoadBalancerStatus, Node, Service
from sampan.controllers.cloud import CloudError, CloudRoute


@dataclass(slots=True, kw_only=True)
class MemoryLoadBalancer:
    ip: str
    ports: list[tuple[int, int]]
    """Pairs of a service port and its node port."""
    nodes: list[str]
    source_ranges: list[str] = field(default_factory=list)


class MemoryCloud:
    """A cloud provider in memory. Every node has an instance, except the nodes in `deleted_instances`. `failing` maps
    calls that must fail, in the form PART.METHOD, to error messages."""

    name = "memory"

    def __init__(self) -> None:
        self.deleted_instances: set[str] = set()
        self.shut_down: set[str] = set()
        self.failing: dict[str, str] = {}
        self.calls: Counter[str] = Counter()
        self.route_table: list[CloudRoute] = []
        self.balancers: dict[str, MemoryLoadBalancer] = {}
        """Load balancers by the UID of their service."""
        self._last_ip = 0
        self.instances = _Instances(self)
        self.routes = _Routes(self)
        self.load_balancers = _LoadBalancers(self)

    def record_call(self, call: str) -> None:
        self.calls[call] += 1
        if call in self.failing:
            raise CloudError(self.failing[call])

    def allocate_ip(self) -> str:
        self._last_ip += 1
        high, low = divmod(self._last_ip, 256)
        return f"203.0.{113 + high}.{low}"


class _Instances:
    def __init__(self, cloud: MemoryCloud) -> None:
        self._cloud = cloud

    async def exists(self, node: Node) -> bool:
        self._cloud.record_call("instances.exists")
        return node.metadata.name not in self._cloud.deleted_instances

    async def is_shut_down(self, node: Node) -> bool:
        self._cloud.record_call("instances.is_shut_down")
        return node.metadata.name in self._cloud.shut_down


class _Routes:
    def __init__(self, cloud: MemoryCloud) -> None:
        self._cloud = cloud

    async def list(self) -> Sequence[CloudRoute]:
        self._cloud.record_call("routes.list")
        return list(self._cloud.route_table)

    async def create(self, route: CloudRoute, *, hint: str) -> None:
        self._cloud.record_call("routes.create")
        name = f"{self._cloud.name}-{hint}-{route.cidr}"
        self._cloud.route_table.append(CloudRoute(name=name, node=route.node, cidr=route.cidr))

    async def delete(self, route: CloudRoute) -> None:
        self._cloud.record_call("routes.delete")
        self._cloud.route_table = [entry for entry in self._cloud.route_table if entry.name != route.name]


class _LoadBalancers:
    def __init__(self, cloud: MemoryCloud) -> None:
        self._cloud = cloud

    async def get(self, service: Service) -> LoadBalancerStatus | None:
        self._cloud.record_call("load_balancers.get")
        balancer = self._cloud.balancers.get(service.metadata.uid)
        return _status(balancer) if balancer is not None else None

    async def ensure(self, service: Service, nodes: Sequence[Node]) -> LoadBalancerStatus:
        self._cloud.record_call("load_balancers.ensure")
        existing = self._cloud.balancers.get(service.metadata.uid)
        spec = service.spec
        balancer = MemoryLoadBalancer(
            ip=existing.ip if existing is not None else spec.loadBalancerIP or self._cloud.allocate_ip(),
            ports=[(port.port, port.nodePort) for port in spec.ports],
            nodes=sorted(node.metadata.name for node in nodes),
            source_ranges=list(spec.loadBalancerSourceRanges),
        )
        self._cloud.balancers[service.metadata.uid] = balancer
        return _status(balancer)

    async def update(self, service: Service, nodes: Sequence[Node]) -> None:
        self._cloud.record_call("load_balancers.update")
        balancer = self._cloud.balancers.get(service.metadata.uid)
        if balancer is None:
            raise CloudError(f"service {service.metadata.name} has no load balancer")
        balancer.nodes = sorted(node.metadata.name for node in nodes)

    async def delete(self, service: Service) -> None:
        self._cloud.record_call("load_balancers.delete")
        self._cloud.balancers.pop(service.metadata.uid, None)


def _status(balancer: MemoryLoadBalancer) -> LoadBalancerStatus:
    return LoadBalancerStatus(ingress=[LoadBalancerIngress(ip=balancer.ip, ipMode="VIP")])
