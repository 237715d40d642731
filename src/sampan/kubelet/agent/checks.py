"""Whether a pod may run here as it wants to. Pure."""

from __future__ import annotations

from sampan.api.types.core_v1 import Pod
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.pod_status import Verdict

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
)
SYSCTL_FORBIDDEN = "SysctlForbidden"


def check_permissions(pod: Pod, config: AgentConfig) -> str:
    """In what the pod goes beyond its own bounds, for the record; what is refused is refused when it is admitted."""
    wants = []
    if pod.spec.hostNetwork:
        wants.append("host network")
    if pod.spec.hostPID:
        wants.append("host processes")
    if pod.spec.hostIPC:
        wants.append("host ipc")
    if any(_is_privileged(container) for container in (*(pod.spec.containers or ()), *pod.spec.initContainers)):
        wants.append("privileged")
    return ", ".join(wants)


def _is_privileged(container: object) -> bool:
    context = getattr(container, "securityContext", None)
    return bool(context is not None and context.privileged)


def refused(pod: Pod, config: AgentConfig) -> Verdict | None:
    """Sysctls that the kubelet was not told to allow."""
    whole = pod.spec.securityContext
    for each in whole.sysctls if whole is not None else ():
        name = each.name.replace("/", ".")
        if name in _SAFE_SYSCTLS or any(_fits(name, pattern) for pattern in config.allowed_unsafe_sysctls):
            continue
        return Verdict(reason=SYSCTL_FORBIDDEN, message=f'forbidden sysctl: "{each.name}" not allowlisted')
    return None


def _fits(name: str, pattern: str) -> bool:
    pattern = pattern.replace("/", ".")
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


__all__ = ["SYSCTL_FORBIDDEN", "check_permissions", "refused"]
