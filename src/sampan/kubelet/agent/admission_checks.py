"""Admission of pods by a real node: whether it permits, and its machine can enforce, what a pod asks for.

`NodeAdmission` combines the pure checks with the state of the node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sampan.api.semantics.pods import AnyContainer, all_containers
from sampan.api.types.core_v1 import Pod
from sampan.kubelet.admission import source_of
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.agent.eviction import rules as eviction_rules
from sampan.kubelet.agent.eviction.manager import EvictionManager
from sampan.kubelet.agent.machine import has_apparmor
from sampan.kubelet.agent.shutdown.node_shutdown import REJECTED, NodeShutdownManager
from sampan.kubelet.pod_status import PodFailure
from sampan.kubelet.records import NodeRecord

_SAFE_SYSCTLS = (
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_notsent_lowat",
)
ALL_SOURCES = "*"
BLOCKED, SYSCTL_FORBIDDEN, APPARMOR = "Blocked", "SysctlForbidden", "AppArmor"
STRICT_GROUPS = "SupplementalGroupsPolicyNotSupported"
_OLD_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


def host_privileges(pod: Pod) -> list[str]:
    """Return the host namespaces and privileges that the pod asks for."""
    spec = pod.spec
    requested = {"host networking": spec.hostNetwork, "host PID": spec.hostPID, "host ipc": spec.hostIPC}
    names = [name for name, is_requested in requested.items() if is_requested]
    if any(_is_privileged(container) for container in all_containers(pod.spec)):
        names.append("privileged container")
    return names


def permission_failure(pod: Pod, config: AgentConfig) -> PodFailure | None:
    """Return the rejection of a pod that asks for something which the kubelet's configuration does not allow its
    source.
    """
    source = source_of(pod)
    allowed = {
        "host networking": _is_allowed_source(config.host_network_sources, source),
        "host PID": _is_allowed_source(config.host_pid_sources, source),
        "host ipc": _is_allowed_source(config.host_ipc_sources, source),
        "privileged container": config.allows_privileged,
    }
    if all(allowed.values()):
        return None
    for name in host_privileges(pod):
        if not allowed[name]:
            text = f'pod with UID "{pod.metadata.uid}" specified {name}, but is disallowed'
            return PodFailure(reason=BLOCKED, message=text)
    return None


def _is_allowed_source(sources: Sequence[str], source: str) -> bool:
    return ALL_SOURCES in sources or source in sources


def enforcement_failure(
    pod: Pod, config: AgentConfig, *, has_apparmor: bool, has_strict_groups: bool
) -> PodFailure | None:
    """Return the rejection of a pod that asks for something which the configuration forbids, or which the machine
    cannot enforce.
    """
    return (
        permission_failure(pod, config)
        or _sysctl_failure(pod, config)
        or _apparmor_failure(pod, has_apparmor)
        or _supplemental_groups_failure(pod, has_strict_groups)
    )


def _sysctl_failure(pod: Pod, config: AgentConfig) -> PodFailure | None:
    whole = pod.spec.securityContext
    for sysctl in whole.sysctls if whole is not None else ():
        name = sysctl.name.replace("/", ".")
        if name in _SAFE_SYSCTLS or any(_matches(name, pattern) for pattern in config.allowed_unsafe_sysctls):
            continue
        return PodFailure(reason=SYSCTL_FORBIDDEN, message=f'forbidden sysctl: "{sysctl.name}" not allowlisted')
    return None


def _matches(name: str, pattern: str) -> bool:
    pattern = pattern.replace("/", ".")
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _apparmor_failure(pod: Pod, has_apparmor: bool) -> PodFailure | None:
    if has_apparmor or pod.status.phase not in ("", "Pending") or not any(_apparmor_profiles(pod)):
        return None
    return PodFailure(reason=APPARMOR, message="Cannot enforce AppArmor: AppArmor is not enabled on the host")


def _apparmor_profiles(pod: Pod) -> Iterator[bool]:
    """Yield, for each field and annotation that can specify an AppArmor profile, whether it specifies one."""
    contexts = [pod.spec.securityContext, *(container.securityContext for container in all_containers(pod.spec))]
    for context in contexts:
        profile = context.appArmorProfile if context is not None else None
        yield profile is not None and profile.type != "Unconfined"
    for key, value in pod.metadata.annotations.items():
        yield key.startswith(_OLD_APPARMOR) and value != "unconfined"


def _supplemental_groups_failure(pod: Pod, has_strict_groups: bool) -> PodFailure | None:
    whole = pod.spec.securityContext
    if has_strict_groups or whole is None or whole.supplementalGroupsPolicy != "Strict":
        return None
    return PodFailure(reason=STRICT_GROUPS, message="SupplementalGroupsPolicy=Strict is not supported in this node")


def _is_privileged(container: AnyContainer) -> bool:
    context = container.securityContext
    return bool(context is not None and context.privileged)


class NodeAdmission:
    """The admission handlers of a real node, apart from the resources that pods request."""

    def __init__(
        self, *, config: AgentConfig, node: NodeRecord, shutdown: NodeShutdownManager, eviction: EvictionManager
    ) -> None:
        self._config, self._node, self._shutdown, self._eviction = config, node, shutdown, eviction
        self._has_apparmor = has_apparmor()

    def admission_failure(self, pod: Pod) -> PodFailure | None:
        """Return why the node rejects the pod, or None."""
        if self._shutdown.is_under_way:
            return REJECTED
        features = self._node.api_node.status.features
        return eviction_rules.admission_failure(pod, self._eviction.types) or enforcement_failure(
            pod,
            self._config,
            has_apparmor=self._has_apparmor,
            has_strict_groups=features is None or features.supplementalGroupsPolicy is not False,
        )

    def permission_failure(self, pod: Pod) -> PodFailure | None:
        """Return why the configuration forbids a pod that was admitted earlier, or None."""
        return permission_failure(pod, self._config)
