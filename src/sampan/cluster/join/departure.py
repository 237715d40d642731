"""Remove a node from its cluster, with the credentials of the node."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from sampan.api.types.core_v1 import Node, Pod
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.policy_v1 import Eviction
from sampan.machinery import errors
from sampan.machinery.client import Client, PatchType, Selection

log = logging.getLogger(__name__)

_MIRROR = "kubernetes.io/config.mirror"
_PAUSE_S = 1.0


async def cordon(client: Client, node: str) -> None:
    """Keep the scheduler from placing pods on the node."""
    await client.for_kind(Node).patch(node, {"spec": {"unschedulable": True}}, type=PatchType.MERGE)


async def drain(client: Client, node: str, timeout_s: float) -> list[str]:
    """Cordon the node and evict its pods, as `kubectl drain --ignore-daemonsets` does. Return the pods that are left
    after the timeout, because a PodDisruptionBudget protects them or because they do not terminate."""
    await cordon(client, node)
    selection = Selection(fields=f"spec.nodeName={node}")
    try:
        async with asyncio.timeout(timeout_s):
            while pods := movable_pods((await client.for_kind(Pod).list(selection)).items):
                await asyncio.gather(*(_evict(client, pod) for pod in pods))
                await asyncio.sleep(_PAUSE_S)
    except TimeoutError:
        pods = movable_pods((await client.for_kind(Pod).list(selection)).items)
        return [f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in pods]
    return []


def movable_pods(pods: Sequence[Pod]) -> list[Pod]:
    """Return the pods that have to leave the node before it is removed: all but static pods, pods of daemon sets, and
    terminated pods that are not being deleted."""
    return [
        pod
        for pod in pods
        if _MIRROR not in pod.metadata.annotations
        and not any(owner.kind == "DaemonSet" for owner in pod.metadata.ownerReferences)
        and (pod.metadata.deletionTimestamp is not None or pod.status.phase not in ("Succeeded", "Failed"))
    ]


async def _evict(client: Client, pod: Pod) -> None:
    metadata = ObjectMeta(name=pod.metadata.name, namespace=pod.metadata.namespace)
    if pod.metadata.deletionTimestamp is not None:
        return
    try:
        await client.for_kind(Pod).create_subresource(
            "eviction", pod.metadata.name, Eviction(metadata=metadata), pod.metadata.namespace
        )
    except errors.NotFound:
        return
    except errors.TooManyRequests as error:
        log.info("pod %s/%s cannot be evicted yet: %s", pod.metadata.namespace, pod.metadata.name, error)


async def delete_node(client: Client, node: str) -> None:
    """Delete the Node object. Do nothing if it does not exist."""
    try:
        await client.for_kind(Node).delete(node)
    except errors.NotFound:
        return
