"""A cluster with a real node and all components, and helpers for its objects."""

import asyncio
from collections.abc import Callable
from typing import Any

from sampan.api.codec import json
from sampan.api.types.core_v1 import Event, Pod
from sampan.machinery import errors
from sampan.machinery.client import Selection
from sampan.testing import Cluster
from tests.e2e.conformance.storage.real_node import IMAGE, NODE


class RealNodeCluster:
    def __init__(self, cluster: Cluster) -> None:
        self.client, self.root = cluster.client, cluster.kubeconfig.parent / "nodes" / NODE / "kubelet"

    async def create(self, kind: type[Any], name: str, namespace: str = "", **content: Any) -> Any:
        meta = {"name": name, "namespace": namespace}
        return await self.client.for_kind(kind).create(json.from_value({"metadata": meta, **content}, kind))

    async def wait_for(self, kind: type[Any], name: str, holds: Callable[[Any], bool], namespace: str = "") -> Any:
        selection = Selection(namespace=namespace, fields=f"metadata.name={name}")
        async with asyncio.timeout(60), self.client.for_kind(kind).watch(selection) as events:
            async for batch in events:
                for event in batch:
                    if event.type in ("ADDED", "MODIFIED") and holds(event.object):
                        return event.object

    async def wait_for_event(self, pod: str, reason: str, text: str) -> None:
        """Wait for an event about a pod whose message contains a text."""
        selection = Selection(namespace="default", fields=f"involvedObject.name={pod},reason={reason}")
        async with asyncio.timeout(60), self.client.for_kind(Event).watch(selection) as events:
            async for batch in events:
                if any(event.type in ("ADDED", "MODIFIED") and text in event.object.message for event in batch):
                    return

    async def wait_until_gone(self, kind: type[Any], name: str, namespace: str = "") -> None:
        selection = Selection(namespace=namespace, fields=f"metadata.name={name}")
        async with asyncio.timeout(60), self.client.for_kind(kind).watch(selection, resource_version="") as events:
            try:
                await self.client.for_kind(kind).get(name, namespace)
            except errors.NotFound:
                return
            async for batch in events:
                if any(event.type == "DELETED" for event in batch):
                    return

    async def create_pod(self, name: str, script: str, *, container: dict[str, Any] | None = None, **spec: Any) -> Pod:
        """Create a pod whose container writes the output of the script as its termination message."""
        command = ["sh", "-c", f"({script}) > /dev/termination-log 2>&1"]
        only = {"name": "c", "image": IMAGE, "command": command, **(container or {})}
        whole = {"containers": [only], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0, **spec}
        pod: Pod = await self.create(Pod, name, "default", spec=whole)
        return pod

    async def create_pod_with_claim(self, name: str, script: str) -> Pod:
        """Create a pod that mounts the claim c at /data."""
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
        mounts = [{"name": "data", "mountPath": "/data"}]
        return await self.create_pod(name, script, container={"volumeMounts": mounts}, volumes=[volume])

    async def wait_for_phase(self, name: str, phase: str) -> Pod:
        ends = (phase, "Succeeded", "Failed")
        pod: Pod = await self.wait_for(Pod, name, lambda pod: pod.status.phase in ends, "default")
        assert pod.status.phase == phase, (pod.status.reason, pod.status.message, output_of(pod))
        return pod


def output_of(pod: Pod) -> str:
    states = [status.state.terminated for status in pod.status.containerStatuses if status.state is not None]
    return "".join(state.message for state in states if state is not None).strip()
