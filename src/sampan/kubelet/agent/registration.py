"""Registration of a real node: creates the Node object, or updates the labels and annotations of an existing one."""

from __future__ import annotations

from sampan.api.semantics.taints import UNSCHEDULABLE
from sampan.api.types.core_v1 import Node, NodeSpec, Taint
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.node_status import CONTROLLER_ATTACHES, Machine, node_status, own_labels
from sampan.machinery import errors
from sampan.machinery.client import Client


def wanted_node(config: AgentConfig, machine: Machine, now: float) -> Node:
    """Return the Node object as the kubelet registers it. Pure."""
    taints = list(config.taints)
    if not config.is_schedulable:
        taints.append(Taint(key=UNSCHEDULABLE, effect="NoSchedule"))
    node = Node(
        metadata=ObjectMeta(
            name=config.name,
            labels=wanted_labels(config),
            annotations=wanted_annotations(config),
        ),
        spec=NodeSpec(taints=taints, unschedulable=not config.is_schedulable, providerID=config.provider_id),
    )
    node.status = node_status(node, machine, now)
    return node


def wanted_labels(config: AgentConfig) -> dict[str, str]:
    return own_labels(config.name) | dict(config.labels)


def wanted_annotations(config: AgentConfig) -> dict[str, str]:
    return {CONTROLLER_ATTACHES: "true", **config.annotations}


async def register(client: Client, config: AgentConfig, machine: Machine, now: float) -> Node:
    """Register the node if configured. Return it as it is on the API server."""
    nodes = client.of(Node)
    if config.registers:
        try:
            return await nodes.create(wanted_node(config, machine, now))
        except errors.AlreadyExists:
            pass
    node = await nodes.get(config.name)
    patch = _patch(node, config)
    return await nodes.patch(config.name, patch) if patch and config.registers else node


def _patch(node: Node, config: AgentConfig) -> dict[str, object]:
    """Return the patch of an existing node's labels and annotations. Its taints are only set at creation."""
    meta = node.metadata
    labels = {key: value for key, value in wanted_labels(config).items() if meta.labels.get(key) != value}
    notes = wanted_annotations(config)
    annotations = {key: value for key, value in notes.items() if meta.annotations.get(key) != value}
    metadata = {"labels": labels, "annotations": annotations}
    return {"metadata": {key: value for key, value in metadata.items() if value}} if any(metadata.values()) else {}
