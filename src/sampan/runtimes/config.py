"""Configuration of sandboxes and containers, modelled on the messages of CRI, with all values resolved.

The kubelet derives them from the pod (`sampan.kubelet.container_config`). A runtime applies them and needs no knowledge
of volumes, secrets or services.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

NamespaceMode = Literal["pod", "container", "node", "target"]
Propagation = Literal["private", "rslave", "rshared"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolverConfig:
    """The content of a container's resolv.conf."""

    servers: Sequence[str] = ()
    searches: Sequence[str] = ()
    options: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PortMapping:
    protocol: str = "TCP"
    container_port: int
    host_port: int
    host_ip: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceOptions:
    """Which namespaces are shared by the pod, shared with the node, or private to a container. The mode `target` joins
    the namespace of another container, as ephemeral containers do for debugging."""

    network: NamespaceMode = "pod"
    pid: NamespaceMode = "container"
    ipc: NamespaceMode = "pod"
    target: str = ""
    """The id of the container whose PID namespace is joined if `pid` is `target`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityProfile:
    """A seccomp or AppArmor profile."""

    type: Literal["", "RuntimeDefault", "Unconfined", "Localhost"] = "RuntimeDefault"
    """The type of the profile. An empty type means that the pod sets none: the runtime applies its
    default behavior."""
    local: str = ""
    """The path (seccomp) or name (AppArmor) of a Localhost profile."""


MASKED_PATHS = (
    *("/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats"),
    *("/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware"),
    "/sys/devices/virtual/powercap",
)
"""The paths that a container with the default procMount does not see."""
READ_ONLY_PATHS = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSecurity:
    user: int | None = None
    """The uid of the container's user; None to use the image's user."""
    group: int | None = None
    username: str = ""
    """The user of the image, set if the pod sets a group but no user: with a group alone, runtimes would run the
    container as root."""
    supplemental_groups: Sequence[int] = ()
    supplemental_policy: Literal["Merge", "Strict"] = "Merge"
    """Whether the groups of the user in the image's /etc/group are added (Merge) or ignored (Strict)."""
    must_not_be_root: bool = False
    """Whether the pod sets runAsNonRoot. A runtime that resolves the user itself then rejects uid 0."""
    is_privileged: bool = False
    is_root_read_only: bool = False
    may_not_gain_privileges: bool = False
    added: Sequence[str] = ()
    """Added capabilities, without the prefix CAP_. ALL stands for every capability."""
    dropped: Sequence[str] = ()
    seccomp: SecurityProfile = field(default_factory=lambda: SecurityProfile(type="Unconfined"))
    apparmor: SecurityProfile = field(default_factory=lambda: SecurityProfile(type="Unconfined"))
    selinux: Mapping[str, str] = field(default_factory=dict)
    masked_paths: Sequence[str] = ()
    read_only_paths: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerResources:
    """Resource limits in the units of cgroups. 0 or empty means no limit."""

    cpu_shares: int = 0
    cpu_quota: int = 0
    """CPU time in microseconds per `cpu_period`; 0 means no limit."""
    cpu_period: int = 100_000
    memory_bytes: int = 0
    cgroup_files: Mapping[str, str] = field(default_factory=dict)
    """Further files of a cgroup of version 2 with their content, such as memory.high."""
    oom_score_adjust: int = 0
    pids: int = 0
    cpus: str = ""
    memory_nodes: str = ""
    huge_pages: Mapping[str, int] = field(default_factory=dict)
    """Limits in bytes by page size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    source: Path
    target: str
    is_read_only: bool = False
    is_recursively_read_only: bool = False
    propagation: Propagation = "private"
    image: str = ""
    """The name of an image whose files are mounted instead of `source`."""
    image_sub_path: str = ""
    options: Sequence[str] = ()
    """Further options of the mount: noexec, nodev, nosuid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    host_path: str
    path: str
    permissions: str = "rwm"


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxConfig:
    """Configuration of a pod's sandbox. The pod's uid and `attempt` identify the sandbox."""

    uid: str
    namespace: str
    name: str
    attempt: int = 0
    hostname: str = ""
    """The host name of the pod. If it is empty, as it usually is for a pod on the network of the node, the pod has that
    of the machine."""
    dns: ResolverConfig | None = None
    """The content of resolv.conf; None to use that of the node."""
    ports: Sequence[PortMapping] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    log_directory: Path
    cgroup_parent: str = ""
    """The cgroup of the pod, parent of the cgroups of its containers; empty if cgroups are not used."""
    namespaces: NamespaceOptions = field(default_factory=NamespaceOptions)
    sysctls: Mapping[str, str] = field(default_factory=dict)
    security: ContainerSecurity = field(default_factory=ContainerSecurity)
    """The security context of the pause container, if the runtime has one."""
    handler: str = ""
    """The handler of the pod's RuntimeClass; empty selects the default handler."""
    shm_bytes: int = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerConfig:
    """Configuration of one run of a container. The pod, `name` and `attempt` identify the run."""

    name: str
    attempt: int = 0
    image: str
    """The image name as written in the pod."""
    image_ref: str = ""
    """The reference that pulling the image returned."""
    command: Sequence[str] = ()
    """Replaces the entrypoint of the image."""
    args: Sequence[str] = ()
    """Replaces the cmd of the image."""
    working_directory: str = ""
    env: Sequence[tuple[str, str]] = ()
    mounts: Sequence[Mount] = ()
    devices: Sequence[Device] = ()
    cdi_devices: Sequence[str] = ()
    """Fully qualified names of CDI (Container Device Interface) devices."""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations, among them the hash of the container's spec, by which a restarted kubelet detects a changed spec."""
    log_path: Path
    """The log file of the container, written in the CRI log format."""
    has_stdin: bool = False
    closes_stdin: bool = False
    """Whether stdin is closed when the input of the first attached client that sends input ends (stdinOnce)."""
    has_tty: bool = False
    stop_signal: str = ""
    """The signal that stops the container; empty for the stop signal of the image, or else SIGTERM."""
    namespaces: NamespaceOptions = field(default_factory=NamespaceOptions)
    security: ContainerSecurity = field(default_factory=ContainerSecurity)
    resources: ContainerResources = field(default_factory=ContainerResources)


_NODE = Path("/etc/resolv.conf")


def resolv_conf(dns: ResolverConfig | None) -> str:
    """Return the resolv.conf for a DNS configuration, or that of the node if `dns` is None."""
    if dns is None:
        try:
            return _NODE.read_text()
        except OSError:
            return ""
    lines = [f"search {' '.join(dns.searches)}\n"] if dns.searches else []
    lines += [f"nameserver {server}\n" for server in dns.servers]
    return "".join([*lines, f"options {' '.join(dns.options)}\n" if dns.options else ""])
