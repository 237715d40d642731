"""The configuration of a cluster, and the values that the cluster chooses itself when it starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sampan.apiserver.config.server_config import ServerConfig
from sampan.cluster.certificate_renewal import CertificateRenewer
from sampan.cluster.leadership import LeadershipConfig
from sampan.cluster.machine.host_locks import HostLocks
from sampan.cluster.nodes.nodes_config import NodesConfig, with_node_cidrs, with_pod_cidrs
from sampan.cluster.scheduler_settings import SchedulerSettings
from sampan.host.clock import Clock
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.machinery.extras import require
from sampan.network.dns.config import ClusterDnsConfig
from sampan.storage.backend import Backend

if TYPE_CHECKING:
    from sampan.network.ingress.publication import IngressConfig
    from sampan.storage.memory import MemoryContent

APISERVER, CONTROLLERS, SCHEDULER, KUBELET = "apiserver", "controllers", "scheduler", "kubelet"
PROXY, DNS = "proxy", "dns"
"""Components of real nodes: the service proxy, and the DNS server of the cluster."""
COMPONENTS = (APISERVER, CONTROLLERS, SCHEDULER, KUBELET, PROXY, DNS)
"""All components in the order in which they start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """The storage backend: etcd if there are URLs, otherwise a SQLite file if there is a path, otherwise memory."""

    etcd_servers: Sequence[str] = ()
    etcd_ca: Path | None = None
    etcd_cert: Path | None = None
    etcd_key: Path | None = None
    etcd_prefix: str = ""
    sqlite: Path | None = None
    is_synced: bool = True
    """Whether SQLite acknowledges a write only when it is on disk."""
    memory: MemoryContent | None = None
    """The initial content of a store in memory: the objects of another cluster, among them those that every cluster has
    from the start. None for an empty store."""
    compaction_interval_s: float = 300.0
    """The interval at which old revisions are discarded; 0 keeps all revisions, or leaves compaction to another client
    of etcd."""

    def open(self, clock: Clock) -> Backend:
        if self.etcd_servers:
            require("grpc")
            from sampan.storage.etcd import EtcdBackend

            return EtcdBackend(
                endpoints=self.etcd_servers,
                ca=self.etcd_ca,
                cert=self.etcd_cert,
                key=self.etcd_key,
                prefix=self.etcd_prefix,
                compaction_interval_s=self.compaction_interval_s,
            )
        if self.sqlite is not None:
            from sampan.storage.sqlite import SqliteBackend, SqliteConfig

            sqlite = SqliteConfig(compaction_interval_s=self.compaction_interval_s, is_synced=self.is_synced)
            return SqliteBackend(path=self.sqlite, clock=clock, config=sqlite)
        from sampan.storage.memory import MemoryBackend

        return MemoryBackend(clock=clock, compaction_interval_s=self.compaction_interval_s, content=self.memory)


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardConfig:
    cluster_name: str = "sampan"
    """The name of the cluster on the page and in its URL paths."""
    sessions: Path | None = None
    """The file with the sessions, which then survive a restart; None keeps them in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    server: ServerConfig
    store: StoreConfig
    components: Sequence[str] = COMPONENTS
    controllers: Sequence[str] = ("*",)
    root_ca: bytes = b""
    """The CA certificate that is published to pods, with which they verify the API server."""
    signing_ca: tuple[Path, Path] | None = None
    """The certificate and key of the CA that signs CertificateSigningRequests."""
    nodes: NodesConfig = field(default_factory=NodesConfig)
    controller_settings: Mapping[str, Any] = field(default_factory=dict)
    """Fields of ControllerConfig that differ from their defaults."""
    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)
    has_default_storage_class: bool = False
    """Whether to create a default storage class with local volumes, for claims without a storage class."""
    renewals: CertificateRenewer = field(default_factory=CertificateRenewer)
    """The certificates that are renewed while the cluster runs."""
    kubelet_address: str = "127.0.0.1"
    """The address on which the kubelets of real nodes listen. The API server of this process calls them directly,
    without a connection."""
    machine_network: NetworkNamespace = field(default_factory=NetworkNamespace)
    """The network of the machine, from which its programs reach the cluster."""
    dns: ClusterDnsConfig = field(default_factory=ClusterDnsConfig)
    ingress: IngressConfig | None = None
    """The Ingress controller of the real nodes; None if there is none."""
    dashboard: DashboardConfig = field(default_factory=DashboardConfig)
    leader_election: LeadershipConfig | None = None
    """Leader election of the controllers and the scheduler, for several processes that share a store."""
    restarts_components: bool = True
    """Whether components other than the API server are restarted when they fail. Otherwise the failure of one ends the
    cluster, so that tests notice it."""


def resolve_config(config: ClusterConfig, locks: HostLocks) -> ClusterConfig:
    """Return the configuration with CIDRs and DNS servers chosen for real nodes, where the user has not set them."""
    config = replace(config, nodes=replace(config.nodes, feature_gates=config.server.feature_gates))
    return _with_cluster_dns(_with_pod_cidrs(config, locks), locks)


def _with_pod_cidrs(config: ClusterConfig, locks: HostLocks) -> ClusterConfig:
    if not config.nodes.real_count:
        return config
    from sampan.controllers.manager import select_controllers

    has_ipam = CONTROLLERS in config.components and "node-ipam-controller" in select_controllers(config.controllers)
    nodes, settings = with_pod_cidrs(config.nodes, config.controller_settings, has_ipam, locks)
    return replace(config, nodes=with_node_cidrs(nodes, locks), controller_settings=settings)


def _with_cluster_dns(config: ClusterConfig, locks: HostLocks) -> ClusterConfig:
    """Configure the kubelets of real nodes for the DNS server of the cluster, unless other servers are set."""
    nodes = replace(
        config.nodes,
        cluster_dns=config.nodes.cluster_dns or cluster_dns_addresses(config),
        cluster_domain=config.dns.zone.domain,
        upstreams=config.dns.forwarder.upstreams,
    )
    client_cidrs = [*config.dns.client_cidrs, *nodes.cluster_cidrs, *nodes.node_cidrs]
    if nodes.cluster_dns and not nodes.cluster_cidrs:  # nodes without IPAM choose their pod CIDRs from this range
        from sampan.cluster.cluster_cidrs import cluster_cidr

        client_cidrs.append(cluster_cidr(nodes.root, locks))
    return replace(config, nodes=nodes, dns=replace(config.dns, client_cidrs=client_cidrs))


def cluster_dns_addresses(config: ClusterConfig) -> list[str]:
    """Return the cluster IPs of the DNS server, if real nodes of this process run one."""
    if DNS not in config.components or not config.nodes.real_count:
        return []
    from sampan.network.dns.publication import dns_addresses

    return dns_addresses(config.server.service_cluster_ip_range)
