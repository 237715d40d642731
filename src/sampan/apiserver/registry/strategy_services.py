"""The services of the server that strategies may use. They are created before the first request and never change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Protocol

from sampan.api.feature_gates import FeatureGates
from sampan.api.scheme import Scheme
from sampan.apiserver.authn.authenticator import UnionTokenAuthenticator
from sampan.apiserver.authz import UnionAuthorizer
from sampan.apiserver.authz.rbac import RbacIndex
from sampan.apiserver.registry.allocation.addresses import AddressAllocator
from sampan.apiserver.registry.allocation.node_ports import NodePortAllocator
from sampan.apiserver.registry.allocation.ranges import ServiceRanges
from sampan.host.worker_thread import WorkerThread

if TYPE_CHECKING:
    from sampan.apiserver.registry.store import Store
    from sampan.host.clock import Clock
    from sampan.storage.backend import Backend


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthServices:
    """The authentication and authorization state that registry code needs, for reviews and role escalation checks."""

    authorizer: UnionAuthorizer
    rules: RbacIndex = field(default_factory=RbacIndex)
    tokens: UnionTokenAuthenticator = field(default_factory=lambda: UnionTokenAuthenticator(()))
    audiences: Sequence[str] = ()
    """The audiences of tokens for this server."""
    worker: WorkerThread = field(default_factory=lambda: WorkerThread("sampan-role-comparison"))
    """Compares the rules of large roles."""


class Stores(Protocol):
    """The stores of built-in kinds, as the registry opens them."""

    @property
    def scheme(self) -> Scheme: ...
    @property
    def backend(self) -> Backend: ...
    @property
    def clock(self) -> Clock: ...
    def open_store_of(self, group: str, version: str, kind: str) -> Store: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyServices:
    """Stores of other kinds, allocators and the authorizer."""

    stores: Stores
    addresses: AddressAllocator
    node_ports: NodePortAllocator
    security: AuthServices | None
    """Authentication and authorization; None if every request is allowed."""
    feature_gates: FeatureGates = field(default_factory=FeatureGates)

    @property
    def scheme(self) -> Scheme:
        return self.stores.scheme

    def open_store_of(self, group: str, version: str, kind: str) -> Store:
        return self.stores.open_store_of(group, version, kind)


def make_strategy_services(
    stores: Stores,
    *,
    ranges: ServiceRanges | None = None,
    security: AuthServices | None = None,
    feature_gates: FeatureGates | None = None,
) -> StrategyServices:
    ranges = ranges or ServiceRanges()
    random = Random(ranges.seed)
    return StrategyServices(
        stores=stores,
        addresses=AddressAllocator(stores=stores, ranges=ranges, random=random),
        node_ports=NodePortAllocator(backend=stores.backend, ports=ranges.node_ports, random=random),
        security=security,
        feature_gates=feature_gates or FeatureGates(),
    )
