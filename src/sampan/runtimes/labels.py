"""How pods and containers are marked in engines that others use too, so that they are found again. Pure.

The first four names are the real kubelet's. With the node's mark several nodes can share one engine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from sampan.runtimes.config import ContainerConfig, SandboxConfig

POD_NAME, POD_NAMESPACE, POD_UID = "io.kubernetes.pod.name", "io.kubernetes.pod.namespace", "io.kubernetes.pod.uid"
CONTAINER_NAME = "io.kubernetes.container.name"
NODE = "sampan.dev/node"
IMAGE = "sampan.dev/image"
"""As the pod names it: engines tell their own name for it, by which it would seem to have been changed."""


def mark(node: str, folder: Path) -> str:
    """What stands for a node: its name, and its folder, as nodes of several clusters may have one name."""
    return f"{node}-{hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:12]}"


def sandbox_labels(config: SandboxConfig, node: str) -> dict[str, str]:
    return {**config.labels, **_pod(config), NODE: node}


def container_labels(config: ContainerConfig, sandbox: SandboxConfig, node: str) -> dict[str, str]:
    return {**config.labels, **_pod(sandbox), CONTAINER_NAME: config.name, NODE: node, IMAGE: config.image}


def of_node(node: str, uid: str = "") -> Mapping[str, str]:
    """What marks everything of a node, or of one of its pods."""
    return {NODE: node, POD_UID: uid} if uid else {NODE: node}


def _pod(config: SandboxConfig) -> dict[str, str]:
    return {POD_NAME: config.name, POD_NAMESPACE: config.namespace, POD_UID: config.uid}


__all__ = ["CONTAINER_NAME", "IMAGE", "NODE", "POD_NAME", "POD_NAMESPACE", "POD_UID", "container_labels", "mark"]
__all__ += ["of_node", "sandbox_labels"]
