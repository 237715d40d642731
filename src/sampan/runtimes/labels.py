"""Labels that identify pods and containers in an engine that is shared with other users and nodes.

The four labels with the prefix io.kubernetes are those of the kubelet in Kubernetes. The node label allows several
nodes to share one engine.
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
"""The label with the image name as written in the pod. Engines report a name of their own, which would look like a
changed image."""


def make_node_mark(node: str, directory: Path) -> str:
    """Return a label value that identifies a node by its name and its directory, since nodes of several clusters may
    have the same name."""
    return f"{node}-{hashlib.sha256(str(directory.absolute()).encode()).hexdigest()[:12]}"


def sandbox_labels(config: SandboxConfig, node: str) -> dict[str, str]:
    return {**config.labels, **_pod(config), NODE: node}


def container_labels(config: ContainerConfig, sandbox: SandboxConfig, node: str) -> dict[str, str]:
    return {**config.labels, **_pod(sandbox), CONTAINER_NAME: config.name, NODE: node, IMAGE: config.image}


def build_selector(node: str, uid: str = "") -> Mapping[str, str]:
    """Return the labels that select all containers of a node, or of one of its pods."""
    return {NODE: node, POD_UID: uid} if uid else {NODE: node}


def _pod(config: SandboxConfig) -> dict[str, str]:
    return {POD_NAME: config.name, POD_NAMESPACE: config.namespace, POD_UID: config.uid}
