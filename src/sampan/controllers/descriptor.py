"""What the table of controllers says of each, and what each is made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

from sampan.controllers.cloud import CloudProvider
from sampan.machinery.client import Client
from sampan.machinery.clock import Clock
from sampan.machinery.controller import Controller, RunnerConfig
from sampan.machinery.events import EventRecorder
from sampan.machinery.informer import InformerFactory

if TYPE_CHECKING:
    from sampan.controllers.autoscaling.metrics import MetricsSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """What a cluster's administrator may say about the controllers."""

    root_ca: str = ""
    """The bundle, in PEM, that clients inside the cluster verify the API server with; without one none is published."""
    namespace_settle_s: float = 0
    """How long a deleted namespace is left alone; more than 0 where several API servers share a store."""
    local_volume_root: str = "/var/lib/sampan/volumes"
    """Where the embedded provisioner has the directories of its volumes, on every node."""
    cluster_signing_cert_file: str = ""
    cluster_signing_key_file: str = ""
    """The CA that signs certificates which are asked for; without one, none are signed."""
    cluster_signing_files: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """By signer: certificate and key of a CA for that one alone. Then there is none for all."""
    cluster_signing_duration_s: float = 365 * 24 * 3600
    """How long such a certificate is good for at most."""
    service_account_private_key_file: str = ""
    """Signs the tokens that are kept in secrets; without one, none are made."""
    legacy_token_clean_up_period_s: float = 365 * 24 * 3600
    """How long a token that was made by itself may be unused."""
    cloud: CloudProvider | None = None
    """Whose machines the nodes are; without one, the controllers that need it have nothing to do."""
    node_monitor_period_s: float = 5
    node_monitor_grace_period_s: float = 50
    """How long a node may be silent before it is taken to be out of reach."""
    node_startup_grace_period_s: float = 60
    """The same for a node that never said how it is."""
    node_eviction_rate: float = 0.1
    """Nodes a second, in a zone that is well, that are given the taint which evicts their pods."""
    secondary_node_eviction_rate: float = 0.01
    """The same in a zone of which a great part is not ready, if the zone is large; else none."""
    unhealthy_zone_threshold: float = 0.55
    large_cluster_size_threshold: int = 50
    terminated_pod_gc_threshold: int = 12500
    """So many pods that are over are kept; 0 keeps all."""
    allocate_node_cidrs: bool = False
    cluster_cidr: Sequence[str] = ()
    """One range, or one of each family."""
    node_cidr_mask_size: int = 0
    """0: 24 for IPv4, 64 for IPv6; only for clusters of one family."""
    node_cidr_mask_size_ipv4: int = 0
    node_cidr_mask_size_ipv6: int = 0
    service_cluster_ip_range: Sequence[str] = ()
    """Ranges that no node may get, as services have them."""
    configure_cloud_routes: bool = True
    route_reconciliation_period_s: float = 10
    endpoint_updates_batch_period_s: float = 0
    endpointslice_updates_batch_period_s: float = 0
    """How long to gather changes of pods before the endpoints follow."""
    max_endpoints_per_slice: int = 100
    mirroring_max_endpoints_per_subset: int = 1000
    metrics: MetricsSource | None = None
    """Who knows the load that autoscalers follow; without one, the metrics APIs are asked."""
    horizontal_pod_autoscaler_sync_period_s: float = 15
    horizontal_pod_autoscaler_downscale_stabilization_s: float = 300
    horizontal_pod_autoscaler_tolerance: float = 0.1
    horizontal_pod_autoscaler_cpu_initialization_period_s: float = 300
    horizontal_pod_autoscaler_initial_readiness_delay_s: float = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What controllers are made from."""

    client_for: Callable[[str], Client]
    """The client that a controller of that name writes with."""
    events_for: Callable[[str, str], EventRecorder]
    """What records events: of the controller of that name, with this as their source."""
    informers: InformerFactory
    clock: Clock
    config: ControllerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    name: str
    aliases: Sequence[str] = ()
    is_on: bool = True
    """Whether `*` includes it."""
    factory: str
    """`module:function`, loaded when the controller is wanted: takes Parts, gives a Controller, or None where the
    configuration leaves it nothing to do."""
    runner: RunnerConfig = field(default_factory=RunnerConfig)

    def make(self, parts: Parts) -> Controller | None:
        module, _, function = self.factory.partition(":")
        made: Controller | None = getattr(import_module(module), function)(parts)
        return made


__all__ = ["ControllerConfig", "Descriptor", "Parts"]
