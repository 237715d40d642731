"""Create pods with several containers on the real node, and wait for their status."""

from typing import Any

from sampan.api.codec import json
from sampan.api.types.core_v1 import ContainerStatus, Pod
from sampan.machinery.client import DeleteParameters, Selection
from sampan.machinery.errors import NotFound
from tests.e2e.conformance.storage.real_node import IMAGE, NODE, RealNode


def container(name: str = "c", script: str = "sleep 1000", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": IMAGE, "command": ["sh", "-c", script], **more}


async def create_pod(
    node: RealNode, *containers: dict[str, Any], name: str = "p", meta: Any = None, **spec: Any
) -> Pod:
    """Create a pod on the node."""
    whole = {"nodeName": NODE, "containers": list(containers), "terminationGracePeriodSeconds": 0, **spec}
    value = {"metadata": {"name": name, "namespace": node.namespace, **(meta or {})}, "spec": whole}
    return await node.client.for_kind(Pod).create(json.from_value(value, Pod))


def is_ready(pod: Pod) -> bool:
    return any(condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions)


async def wait_until_ready(node: RealNode, name: str = "p") -> Pod:
    return await node.wait_for(name, is_ready)


def container_status(pod: Pod, name: str = "c") -> ContainerStatus:
    return next(status for status in pod.status.containerStatuses if status.name == name)


def count_restarts(pod: Pod) -> int:
    return sum(status.restartCount for status in pod.status.containerStatuses)


async def delete(node: RealNode, name: str = "p", grace_s: int | None = None) -> None:
    await node.client.for_kind(Pod).delete(name, node.namespace, options=DeleteParameters(grace_period_s=grace_s))


async def wait_until_gone(node: RealNode, name: str = "p") -> None:
    selection = Selection(namespace=node.namespace, fields=f"metadata.name={name}")
    try:
        version = (await node.client.for_kind(Pod).get(name, node.namespace)).metadata.resourceVersion
    except NotFound:
        return
    async with node.client.for_kind(Pod).watch(selection, resource_version=version) as events:
        async for batch in events:
            if any(event.type == "DELETED" for event in batch):
                return
