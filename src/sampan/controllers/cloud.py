"""The cloud provider interface that controllers call (`k8s.io/cloud-provider`). Every part of it is optional.

If a method raises, the controller records an event where Kubernetes defines one, and retries after a backoff.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sampan.api.types.core_v1 import LoadBalancerStatus, Node, Service


class CloudError(Exception):
    """A request to the cloud provider failed. The message is shown to users."""


class Instances(Protocol):
    """The cloud instances that back the nodes."""

    async def exists(self, node: Node) -> bool:
        """Return False only if the instance no longer exists and will not come back."""

    async def is_shut_down(self, node: Node) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudRoute:
    """A cloud route that sends the packets of a pod CIDR to a node."""

    name: str = ""
    """The name that the provider assigned; empty in a route that is yet to be created."""
    node: str
    """The name of the node; empty if the provider cannot map the instance to a node."""
    cidr: str
    is_blackhole: bool = False


class CloudRoutes(Protocol):
    async def list(self) -> Sequence[CloudRoute]:
        """Return all routes of this cluster."""

    async def create(self, route: CloudRoute, *, hint: str) -> None:
        """Create the route. `hint` is the UID of the node, from which the provider may derive a name."""

    async def delete(self, route: CloudRoute) -> None: ...


class LoadBalancers(Protocol):
    async def get(self, service: Service) -> LoadBalancerStatus | None:
        """Return the load balancer's status, or None if the service has no load balancer."""

    async def ensure(self, service: Service, nodes: Sequence[Node]) -> LoadBalancerStatus:
        """Create the load balancer or update it: ports, source ranges, and the nodes as its backends."""

    async def update(self, service: Service, nodes: Sequence[Node]) -> None:
        """Replace the nodes behind an existing load balancer."""

    async def delete(self, service: Service) -> None:
        """Delete the load balancer of the service. It is not an error if there is none."""


class CloudProvider(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def instances(self) -> Instances | None: ...

    @property
    def routes(self) -> CloudRoutes | None: ...

    @property
    def load_balancers(self) -> LoadBalancers | None: ...
