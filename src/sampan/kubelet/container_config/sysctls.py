"""The sysctls of a pod's sandbox (`applyPodSysctls` in `pkg/kubelet/kuberuntime/kuberuntime_sandbox.go`). Those of
the node need the gate DefaultPodSysctls."""

from __future__ import annotations

from collections.abc import Mapping

from sampan.api.types.core_v1 import Pod

_IPC, _NETWORK, _USER, _UTS = "IPC", "Net", "User", "UTS"
_NAMESPACES = {
    "kernel.domainname": _UTS,
    **dict.fromkeys(("kernel.sem", "kernel.shm", "kernel.shmall", "kernel.shmmax", "kernel.shmmni"), _IPC),
    **dict.fromkeys(("kernel.shm_rmid_forced", "kernel.msg", "kernel.msgmax", "kernel.msgmnb", "kernel.msgmni"), _IPC),
}
_PREFIXES = {"net.": _NETWORK, "fs.mqueue.": _IPC, "user.": _USER}


def normalize_sysctl(name: str) -> str:
    """Return the name with dots between its parts. The parts of a name with slashes may contain dots."""
    position = min((index for mark in "./" if (index := name.find(mark)) >= 0), default=-1)
    if position < 0 or name[position] == ".":
        return name
    return name.translate(str.maketrans("./", "/."))


def namespace_of(name: str) -> str:
    """Return the namespace that a normalized sysctl belongs to, or an empty string if it has none."""
    prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), "")
    return _NAMESPACES.get(name) or _PREFIXES.get(prefix, "")


def pod_sysctls(pod: Pod, defaults: Mapping[str, str]) -> dict[str, str]:
    """Return the sysctls of the pod. The defaults of the node apply to namespaces that the pod does not share with the
    node. Pure."""
    spec = pod.spec
    shared = {
        _IPC: spec.hostIPC,
        _NETWORK: spec.hostNetwork,
        _UTS: spec.hostNetwork,
        _USER: spec.hostUsers is not False,
    }
    own = spec.securityContext.sysctls if spec.securityContext is not None else ()
    names = {normalize_sysctl(sysctl.name) for sysctl in own}
    applied = {name: value for name, value in defaults.items() if name not in names and not shared[namespace_of(name)]}
    return applied | {sysctl.name: sysctl.value for sysctl in own}
