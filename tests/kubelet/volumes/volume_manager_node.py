"""A node's volume manager against a real API server, with the permissions of that node, and pods for it."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from sampan.apiserver.request.call import UserInfo
from sampan.host.clock import Clock
from sampan.kubelet.objects import PodObjects
from sampan.kubelet.plugin_registry import PluginRegistry
from sampan.kubelet.volumes import VolumeCallbacks, VolumeConfig, VolumeManager
from sampan.kubelet.volumes.csi.registration import TYPE
from sampan.kubelet.volumes.mounter import Mounter
from sampan.machinery.client import Client, PatchType, Selection
from sampan.machinery.informer import InformerFactory
from sampan.testing import Cluster
from tests.kubelet.node_api_server import node_api_server

IS_ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not IS_ROOT, reason="mounting needs root")

CLAIM_VOLUME = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
ALLOCATABLE = {"cpu": "2", "memory": "1Gi", "ephemeral-storage": "10Gi"}


class Scene:
    """A cluster, and the volume manager of the kubelet of node n."""

    def __init__(self, cluster: Cluster, root: Path) -> None:
        self.cluster, self.root, self.client = cluster, root, cluster.client
        self.events: list[tuple[str, str, str]] = []
        self.resize_events: list[tuple[str, str, str, str]] = []
        self.excesses: list[tuple[str, str]] = []
        self.has_changed = asyncio.Event()

    @asynccontextmanager
    async def running_manager(
        self, *, clock: Clock | None = None, mounter: Mounter | None = None, **config: Any
    ) -> AsyncIterator[VolumeManager]:
        clock = clock or self.cluster.clock
        user = UserInfo("system:node:n", groups=("system:nodes", "system:authenticated"))
        client = Client(transport=self.cluster.assembly.transport.as_user(user), clock=clock, component="kubelet")
        async with InformerFactory(client=client) as informers:
            manager = VolumeManager(
                config=VolumeConfig(root=self.root, node_name="n", allocatable=ALLOCATABLE, **config),
                client=client,
                informers=informers,
                objects=PodObjects(informers=informers),
                clock=clock,
                callbacks=VolumeCallbacks(
                    warn=self._warn,
                    record_event=lambda about, *event: self.resize_events.append((about.metadata.name, *event)),
                    on_excess=lambda pod, message: self.excesses.append((pod.metadata.name, message)),
                ),
                mounter=mounter,
            )
            registry = PluginRegistry(
                directory=self.root / "plugins_registry", handlers={TYPE: manager.csi_handler}, clock=clock
            )
            async with manager.running(), asyncio.TaskGroup() as group:
                task = group.create_task(registry.run())
                yield manager
                task.cancel()

    def _warn(self, pod: Pod, reason: str, message: str) -> None:
        self.events.append((pod.metadata.name, reason, message))
        self.has_changed.set()

    async def wait_for_warning(self) -> str:
        """Wait for the next warning, and return its message."""
        await self.has_changed.wait()
        self.has_changed.clear()
        return self.events[-1][2]

    async def create(self, kind: type[Any], name: str, namespace: str = "default", **content: Any) -> Any:
        meta = {"name": name, "namespace": namespace}
        return await self.client.for_kind(kind).create(json.from_value({"metadata": meta, **content}, kind))

    async def create_bound_claim(self, **volume: Any) -> None:
        """Create claim c and volume v, bound to each other; `volume` are fields of the volume's spec."""
        access = {"accessModes": volume.get("accessModes", ["ReadWriteOnce"])}
        mode = volume.get("volumeMode", "Filesystem")
        claim = {**access, "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "v", "volumeMode": mode}
        created = await self.create(PersistentVolumeClaim, "c", spec={**claim, "storageClassName": ""})
        ref = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "c", "uid": created.metadata.uid}
        spec = {"capacity": {"storage": "1Gi"}, **access, "claimRef": ref, **volume}
        await self.create(PersistentVolume, "v", "", spec=spec)
        await self.client.for_kind(PersistentVolumeClaim).patch(
            "c", {"status": {"phase": "Bound"}}, "default", type=PatchType.MERGE, subresource="status"
        )

    async def pod(
        self, name: str = "p", *, volumes: list[dict[str, Any]], mounts: list[dict[str, Any]] | None = None, **spec: Any
    ) -> Pod:
        """Create a pod on node n; by default each volume is mounted under its name."""
        mounts = mounts or [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes]
        container = {"name": "c", "image": "i", "volumeMounts": mounts}
        whole = {"nodeName": "n", "automountServiceAccountToken": False, "containers": [container]}
        meta = spec.pop("metadata", {})
        value = {
            "metadata": {"name": name, "namespace": "default", **meta},
            "spec": {**whole, "volumes": volumes, **spec},
        }
        return await self.client.for_kind(Pod).create(json.from_value(value, Pod))

    async def wait_for_object(self, kind: type[Any], name: str, holds: Callable[[Any], bool]) -> None:
        """Wait until `holds` is true of the object."""
        async with (
            asyncio.timeout(60),
            self.client.for_kind(kind).watch(Selection(fields=f"metadata.name={name}")) as events,
        ):
            async for batch in events:
                if any(event.type != "BOOKMARK" and holds(event.object) for event in batch):
                    return

    def directory(self, pod: Pod, plugin: str, name: str) -> Path:
        return self.root / "pods" / pod.metadata.uid / "volumes" / f"kubernetes.io~{plugin}" / name


def run_scenario(tmp_path: Path, scenario: Callable[[Scene], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), node_api_server(**options) as cluster:
            await scenario(Scene(cluster, tmp_path / "root"))

    asyncio.run(main())
