"""Profiles of `kubectl debug`: what a debugging container may do, and what a copied pod keeps (cmd/debug/profiles)."""

from __future__ import annotations

from typing import Any, Protocol

from sampan.kubectl.errors import KubectlError

Pod = dict[str, Any]

EPHEMERAL, COPY, NODE = "ephemeral", "copy", "node"
"""The ways to debug: a container in the pod, a copy of the pod, a pod on a node."""
NAMES = ("legacy", "general", "baseline", "restricted", "netadmin", "sysadmin")


class KeepFlags(Protocol):
    """The flags about what a copied pod keeps."""

    @property
    def keep_labels(self) -> bool: ...
    @property
    def keep_annotations(self) -> bool: ...
    @property
    def keep_liveness(self) -> bool: ...
    @property
    def keep_readiness(self) -> bool: ...
    @property
    def keep_startup(self) -> bool: ...
    @property
    def keep_init_containers(self) -> bool: ...


def check_profile(name: str) -> None:
    if name not in NAMES:
        raise KubectlError(f"unknown profile: {name}")


def apply_profile(name: str, pod: Pod, container: dict[str, Any], style: str, keep: KeepFlags) -> None:
    """Change a pod and its debugging container as a profile says."""
    spec = pod["spec"]
    if name in ("baseline", "restricted") or (name == "general" and style == NODE):
        container.pop("securityContext", None)
    if name == "restricted":
        container["securityContext"] = {
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
            "allowPrivilegeEscalation": False,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
    elif name == "general" and style != NODE:
        _add_capabilities(container, "SYS_PTRACE")
    elif name == "netadmin":
        _add_capabilities(container, "NET_ADMIN", "NET_RAW")
    elif name == "sysadmin":
        container.setdefault("securityContext", {})["privileged"] = True
    if style == NODE and name in ("legacy", "general", "sysadmin"):
        spec.setdefault("volumes", []).append({"name": "host-root", "hostPath": {"path": "/"}})
        container.setdefault("volumeMounts", []).append({"mountPath": "/host", "name": "host-root"})
    if style == NODE and name not in ("baseline", "restricted"):
        spec |= {"hostNetwork": True, "hostPID": True, "hostIPC": True}
    if style == COPY:
        _reduce_copy(name, pod, keep)


def _add_capabilities(container: dict[str, Any], *names: str) -> None:
    context = container.setdefault("securityContext", {})
    context.setdefault("capabilities", {}).setdefault("add", []).extend(names)


def _reduce_copy(name: str, pod: Pod, keep: KeepFlags) -> None:
    """Remove from a copied pod what the flags do not keep; the legacy profile removes only labels."""
    metadata, spec = pod["metadata"], pod["spec"]
    if name == "legacy" or not keep.keep_labels:
        metadata.pop("labels", None)
    if name == "legacy":
        return
    if not keep.keep_annotations:
        metadata.pop("annotations", None)
    probes = (
        ("livenessProbe", keep.keep_liveness),
        ("readinessProbe", keep.keep_readiness),
        ("startupProbe", keep.keep_startup),
    )
    for probe, is_kept in probes:
        if not is_kept:
            for container in spec.get("containers") or ():
                container.pop(probe, None)
    if not keep.keep_init_containers:
        spec.pop("initContainers", None)
    spec.setdefault("shareProcessNamespace", True)
