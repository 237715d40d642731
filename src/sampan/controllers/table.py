"""The table of controllers: their names, how each is made, and how it runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sampan.controllers.cluster_role_aggregation import ClusterRoleAggregation
from sampan.controllers.namespace import NamespaceController
from sampan.controllers.resource_quota import ResourceQuotaController
from sampan.controllers.root_ca import RootCaPublisher
from sampan.controllers.serviceaccount import ServiceAccountController
from sampan.machinery.client import Client
from sampan.machinery.client.discovery import Discovery
from sampan.machinery.clock import Clock
from sampan.machinery.controller import Controller, RunnerConfig
from sampan.machinery.informer import InformerFactory
from sampan.machinery.workqueue import Backoff


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """What a cluster's administrator may say about the controllers."""

    root_ca: str = ""
    """The bundle, in PEM, that clients inside the cluster verify the API server with; without one none is published."""
    namespace_settle_s: float = 0
    """How long a deleted namespace is left alone; more than 0 where several API servers share a store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What controllers are made from."""

    client_for: Callable[[str], Client]
    """The client that a controller of that name writes with."""
    informers: InformerFactory
    clock: Clock
    config: ControllerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    name: str
    aliases: Sequence[str] = ()
    is_on: bool = True
    """Whether `*` includes it."""
    make: Callable[[Parts], Controller | None]
    """None where the configuration leaves it nothing to do."""
    runner: RunnerConfig = field(default_factory=RunnerConfig)


def _namespace(parts: Parts) -> Controller:
    client = parts.client_for(NamespaceController.name)
    return NamespaceController(
        client=client,
        discover=Discovery(client).preferred,
        clock=parts.clock,
        settle_s=parts.config.namespace_settle_s,
    )


def _service_account(parts: Parts) -> Controller:
    client = parts.client_for(ServiceAccountController.name)
    return ServiceAccountController(client=client, informers=parts.informers)


def _cluster_roles(parts: Parts) -> Controller:
    client = parts.client_for(ClusterRoleAggregation.name)
    return ClusterRoleAggregation(client=client, informers=parts.informers)


def _resource_quota(parts: Parts) -> Controller:
    client = parts.client_for(ResourceQuotaController.name)
    return ResourceQuotaController(
        client=client, informers=parts.informers, clock=parts.clock, discover=Discovery(client).preferred
    )


def _root_ca(parts: Parts) -> Controller | None:
    if not parts.config.root_ca:
        return None
    client = parts.client_for(RootCaPublisher.name)
    return RootCaPublisher(client=client, informers=parts.informers, bundle=parts.config.root_ca)


CONTROLLERS = (
    Descriptor(
        name=NamespaceController.name,
        aliases=("namespace",),
        make=_namespace,
        runner=RunnerConfig(workers=10, backoff=Backoff(most_s=60)),
    ),
    Descriptor(name=ServiceAccountController.name, aliases=("serviceaccount",), make=_service_account),
    Descriptor(name=ResourceQuotaController.name, aliases=("resourcequota",), make=_resource_quota),
    Descriptor(name=ClusterRoleAggregation.name, aliases=("clusterrole-aggregation",), make=_cluster_roles),
    Descriptor(name=RootCaPublisher.name, aliases=("root-ca-cert-publisher",), make=_root_ca),
)
