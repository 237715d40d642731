"""The cloud provider: what the controllers need of whoever owns the machines. Each part is optional.

What a method raises is told in an event where there is one for it, and tried again after a back-off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sampan.api.types.core_v1 import LoadBalancerStatus, Node, Service


class CloudError(Exception):
    """The provider could not do it; the message is shown to users."""


class Instances(Protocol):
    """The machines behind the nodes."""

    async def exists(self, node: Node) -> bool:
        """False only if the machine is gone for good."""

    async def is_shut_down(self, node: Node) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Packets for the range go to the node."""

    name: str = ""
    """The provider's; empty in a route to be made."""
    node: str
    """Empty if the machine is no node that the provider knows."""
    cidr: str
    is_blackhole: bool = False


class Routes(Protocol):
    async def list(self) -> Sequence[Route]:
        """All routes of this cluster."""

    async def create(self, route: Route, *, hint: str) -> None:
        """`hint` is the node's uid: what a name may be made from."""

    async def delete(self, route: Route) -> None: ...


class LoadBalancers(Protocol):
    async def get(self, service: Service) -> LoadBalancerStatus | None:
        """None if the service has none."""

    async def ensure(self, service: Service, nodes: Sequence[Node]) -> LoadBalancerStatus:
        """Create it or make it right: ports, source ranges, and the nodes as its backends."""

    async def update(self, service: Service, nodes: Sequence[Node]) -> None:
        """Give one that exists other nodes."""

    async def delete(self, service: Service) -> None:
        """Deleting what is not there is well done."""


class CloudProvider(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def instances(self) -> Instances | None: ...

    @property
    def routes(self) -> Routes | None: ...

    @property
    def load_balancers(self) -> LoadBalancers | None: ...


__all__ = ["CloudError", "CloudProvider", "Instances", "LoadBalancers", "Route", "Routes"]
