"""Descriptors of controllers: the rows of the controller table, the configuration, and the collaborators that the
controller manager provides (`cmd/kube-controller-manager/app`)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from sampan.api.feature_gates import FeatureGates
from sampan.controllers.cloud import CloudProvider
from sampan.host.clock import Clock
from sampan.machinery.client import Client
from sampan.machinery.control_loop.controller import Controller, RunnerConfig
from sampan.machinery.events import EventRecorder
from sampan.machinery.informer import InformerFactory
from sampan.machinery.telemetry.flight_recorder import FlightRecorder

if TYPE_CHECKING:
    from sampan.controllers.autoscaling.metrics import MetricsSource

C = TypeVar("C", bound=Controller)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """The settings of kube-controller-manager that concern individual controllers."""

    feature_gates: FeatureGates = field(default_factory=FeatureGates)
    root_ca: str = ""
    """The PEM bundle with which clients inside the cluster verify the API server. If empty, none is published."""
    namespace_settle_s: float = 0
    """Seconds to wait before a deleted namespace is emptied; greater than 0 if several API servers share one store."""
    serves_storage_migration: bool = False
    """Whether the API server serves StorageVersionMigrations, whose controller runs only then."""
    enable_hostpath_provisioner: bool = False
    """Whether classes with the provisioner kubernetes.io/host-path get directories of this machine."""
    local_volume_root: str = "/var/lib/sampan/volumes"
    """The directory, on every node, in which the built-in provisioner creates its volumes."""
    cluster_signing_cert_file: str = ""
    cluster_signing_key_file: str = ""
    """Certificate and key of the CA that signs approved certificate signing requests. If empty, none are signed."""
    cluster_signing_files: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Certificate and key files per signer name. If set, there is no CA that serves all signers."""
    cluster_signing_duration_s: float = 365 * 24 * 3600
    """The maximum lifetime, in seconds, of a signed certificate."""
    service_account_private_key_file: str = ""
    """The key that signs the service account tokens stored in secrets. If empty, no such tokens are issued."""
    legacy_token_clean_up_period_s: float = 365 * 24 * 3600
    """Seconds after which an unused auto-generated service account token is removed."""
    cloud: CloudProvider | None = None
    """The cloud provider. Without one, the controllers that need it do not run."""
    node_monitor_period_s: float = 5
    node_monitor_grace_period_s: float = 50
    """Seconds without a heartbeat after which a node's Ready condition becomes Unknown."""
    node_startup_grace_period_s: float = 60
    """Seconds that a node which has never posted its status has to do so."""
    node_eviction_rate: float = 0.1
    """Nodes per second, in a healthy zone, that receive the NoExecute taint."""
    secondary_node_eviction_rate: float = 0.01
    """Nodes per second in an unhealthy zone, if it is larger than the large-cluster threshold; smaller zones get none.
    """
    unhealthy_zone_threshold: float = 0.55
    large_cluster_size_threshold: int = 50
    terminated_pod_gc_threshold: int = 12500
    """The number of terminated pods that are kept; 0 keeps all of them."""
    allocate_node_cidrs: bool = False
    cluster_cidr: Sequence[str] = ()
    """The pod CIDRs of the cluster: one, or one per IP family."""
    node_cidr_mask_size: int = 0
    """Prefix length of a node's pod CIDR in single-stack clusters. 0 means 24 for IPv4 and 64 for IPv6."""
    node_cidr_mask_size_ipv4: int = 0
    node_cidr_mask_size_ipv6: int = 0
    service_cluster_ip_range: Sequence[str] = ()
    """The service CIDRs, which are excluded from the pod CIDRs assigned to nodes."""
    configure_cloud_routes: bool = True
    route_reconciliation_period_s: float = 10
    endpoint_updates_batch_period_s: float = 0
    endpointslice_updates_batch_period_s: float = 0
    """Seconds for which pod changes are batched before endpoint slices are updated."""
    max_endpoints_per_slice: int = 100
    mirroring_max_endpoints_per_subset: int = 1000
    metrics: MetricsSource | None = None
    """The source of the metrics that autoscalers read. If None, the metrics APIs are queried."""
    horizontal_pod_autoscaler_sync_period_s: float = 15
    horizontal_pod_autoscaler_downscale_stabilization_s: float = 300
    horizontal_pod_autoscaler_tolerance: float = 0.1
    horizontal_pod_autoscaler_cpu_initialization_period_s: float = 300
    horizontal_pod_autoscaler_initial_readiness_delay_s: float = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerContext:
    """The settings and collaborators that the controller manager provides to a controller (`ControllerContext` of
    kube-controller-manager)."""

    name: str
    event_source: str
    client_for: Callable[[str], Client]
    """Return the API client of the controller with this name; an empty name stands for the controller manager
    itself."""
    events_for: Callable[[str, str], EventRecorder]
    """Return an event recorder that writes as the named controller, with that event source."""
    informers: InformerFactory
    clock: Clock
    config: ControllerConfig
    recorder: FlightRecorder | None = None
    """The flight recorder, if the API server runs in the same process."""

    @property
    def client(self) -> Client:
        return self.client_for(self.name)

    @property
    def events(self) -> EventRecorder:
        return self.events_for(self.name, self.event_source)

    def build(self, controller: type[C], **settings: object) -> C:
        """Construct a controller from these settings, and from the collaborators that its constructor names."""
        required = inspect.signature(controller).parameters.keys() - settings.keys()
        if unknown := required - COLLABORATORS.keys():
            raise TypeError(f"{controller.__name__} requires {', '.join(sorted(unknown))}")
        collaborators = {name: getattr(self, name) for name in required}
        return controller(**collaborators, **settings)


COLLABORATORS: Mapping[str, type] = {
    "client": Client,
    "informers": InformerFactory,
    "events": EventRecorder,
    "clock": Clock,
    "config": ControllerConfig,
}
"""The parameters of a controller's constructor that `ControllerContext.build` provides, with their types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerDescriptor:
    """A row of the controller table (`ControllerDescriptor` of kube-controller-manager)."""

    name: str
    aliases: Sequence[str] = ()
    is_on: bool = True
    """Whether `*` in --controllers includes this controller."""
    gates: Sequence[str] = ()
    """The feature gates without which the controller does not run, even if it is enabled."""
    is_in_cloud_manager: bool = False
    """Whether the controller belongs to a cloud-controller-manager; kube-controller-manager does not know its name."""
    controller: str = ""
    """`module:name` of the class of the controller, or of a function that takes a ControllerContext and returns the
    controller, or None if the configuration leaves the controller nothing to do. Imported only if the controller is
    enabled. Empty if Sampan does not implement the controller."""
    event_source: str = ""
    """The component that events of the controller name as their source, if it is not the name of the controller."""
    runner: RunnerConfig = field(default_factory=RunnerConfig)

    def has_gates(self, gates: FeatureGates) -> bool:
        return all(map(gates.is_enabled, self.gates))

    def build(self, context: ControllerContext) -> Controller | None:
        if not self.controller or not self.has_gates(context.config.feature_gates):
            return None
        module, _, attribute = self.controller.partition(":")
        factory = getattr(import_module(module), attribute)
        controller: Controller | None = context.build(factory) if isinstance(factory, type) else factory(context)
        return controller
