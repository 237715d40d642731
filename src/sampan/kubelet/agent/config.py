"""Configuration of the kubelet of a real node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sampan.api.types.core_v1 import Taint
from sampan.kubelet.config import PORT, KubeletConfig
from sampan.machinery.loopback_services import LoopbackServices

HARD_EVICTION = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}
"""The thresholds of the real kubelet, for machines that do nothing else."""
LOCAL_HARD_EVICTION = {
    "memory.available": "100Mi",
    "nodefs.available": "200Mi",
    "nodefs.inodesFree": "2000",
    "imagefs.available": "200Mi",
    "imagefs.inodesFree": "2000",
}
"""The thresholds of nodes on personal and CI machines, whose disks are often rather full. They are amounts, because a
share of a large disk would be more than any pod needs."""
IMAGE_GC_OFF = 100
"""The value of `image_gc_high` that disables the removal of unused images before there is disk pressure."""


@dataclass(frozen=True, slots=True)
class ShutdownGroup:
    """The grace period at node shutdown of the pods whose priority is at least `priority` and below that of the next
    group.
    """

    priority: int
    grace_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    name: str
    """Name of the node."""
    root: Path
    """Root directory of the kubelet's data."""
    logs: Path
    """Directory of the pod logs."""
    kubelet: KubeletConfig = field(default_factory=KubeletConfig)
    registers: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Taint] = ()
    is_schedulable: bool = True
    host_name: str = ""
    """Host name of the node, if it is not that of the machine."""
    node_ips: Sequence[str] = ()
    """Addresses of the node; empty to use the address of the default route."""
    port: int = PORT
    max_pods: int = 110
    pods_per_core: int = 0
    kube_reserved: Mapping[str, str] = field(default_factory=dict)
    system_reserved: Mapping[str, str] = field(default_factory=dict)
    eviction_hard: Mapping[str, str] = field(default_factory=lambda: dict(HARD_EVICTION))
    eviction_soft: Mapping[str, str] = field(default_factory=dict)
    eviction_soft_grace_s: Mapping[str, float] = field(default_factory=dict)
    eviction_max_pod_grace_s: int = 0
    eviction_minimum_reclaim: Mapping[str, str] = field(default_factory=dict)
    """Amount beyond the threshold that must be reclaimed before a shortage counts as resolved."""
    pressure_transition_s: float = 300.0
    eviction_period_s: float = 10.0
    """Interval at which the eviction thresholds are checked."""
    cluster_dns: Sequence[str] = ()
    cluster_domain: str = "cluster.local"
    resolv_conf: Path = Path("/etc/resolv.conf")
    loopback_services: LoopbackServices | None = None
    """The loopback addresses of services, if the service proxy of the node works in user space."""
    serializes_pulls: bool = True
    max_parallel_pulls: int = 0
    """Limit of concurrent image pulls if they are not serialized; 0 for unlimited."""
    image_policy: str = "NeverVerifyPreloadedImages"
    """Which pods must prove that they may use an image that is already present."""
    listed_images: Sequence[str] = ()
    cgroup_root: str = ""
    """Parent of all cgroups of this kubelet; empty for the top of the hierarchy."""
    has_cgroups_per_qos: bool = True
    static_pod_path: Path | None = None
    static_url: str = ""
    static_url_headers: Mapping[str, str] = field(default_factory=dict)
    static_period_s: float = 20.0
    static_url_period_s: float = 20.0
    relist_s: float = 60.0
    """Interval at which every pod is synced even without a known change."""
    image_gc_high: int = 85
    image_gc_low: int = 80
    image_min_age_s: float = 120.0
    image_max_age_s: float = 0.0
    """Age at which an unused image is removed; 0 for never."""
    images: Path | None = None
    """Directory of images and containers, if known."""
    container_log_max_bytes: int = 10 << 20
    container_log_max_files: int = 5
    shutdown_grace_s: float = 0.0
    shutdown_grace_critical_s: float = 0.0
    shutdown_groups: Sequence[ShutdownGroup] = ()
    """Grace periods by priority, which replace `shutdown_grace_s` and `shutdown_grace_critical_s`."""
    system_bus: str = ""
    """Address of the D-Bus on which logind announces shutdowns; empty for the system bus."""
    logind_directory: Path = Path("/etc/systemd/logind.conf.d")
    allowed_unsafe_sysctls: Sequence[str] = ()
    memory_throttling_factor: float | None = None
    """The part of the memory between request and limit at which throttling begins; None for no throttling."""
    memory_reservation_policy: str = "None"
    """None, or TieredReservation to protect the memory that pods request."""
    default_pod_sysctls: Mapping[str, str] = field(default_factory=dict)
    """Sysctls of all pods that do not set them themselves."""
    pod_pids: int = 0
    """Maximum number of processes per pod; 0 for unlimited."""
    has_default_seccomp: bool = False
    """Whether containers without a seccomp profile use RuntimeDefault."""
    max_status_images: int = 50
    """Maximum number of images in the node status; -1 for all."""
    provider_id: str = ""
    allows_privileged: bool = True
    host_network_sources: Sequence[str] = ("*",)
    """Pod sources (api, file, http) whose pods may use the host network; * for all."""
    host_pid_sources: Sequence[str] = ("*",)
    host_ipc_sources: Sequence[str] = ("*",)
    ends_pods: bool = False
    """Whether the kubelet removes all pods when it stops. Otherwise they keep running, and the next kubelet adopts
    them.
    """
    pod_cidrs: Sequence[str] = ()
    """Pod CIDRs to use if the Node object has none."""
    own_pod_cidrs: Sequence[str] = ()
    """Pod CIDRs that the node assigns to itself if no controller allocates any."""
    needs_pod_cidr: bool = False
    """Whether Sampan provides the pod network, which needs the node's pod CIDR."""
