"""Conformance tests of sig-storage for API objects. The first paragraph of a docstring is the official test name."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimCondition, Pod
from sampan.api.types.storage_v1 import (
    CSIDriver,
    CSINode,
    StorageClass,
    VolumeAttachment,
    VolumeAttributesClass,
)
from sampan.host.clock import VirtualClock
from sampan.machinery.client import DeleteParameters, PatchType, Selection
from sampan.machinery.copies import copy_of
from sampan.machinery.errors import NotFound
from sampan.testing import Cluster
from tests.e2e.conformance.api import Api
from tests.e2e.conformance.operations import check_api_operations

CLASS = "e2e-class"
MODES = {"accessModes": ["ReadWriteOnce"], "storageClassName": CLASS}


class KindClient:
    """A client for the objects of one kind, in the namespace default if the kind is namespaced."""

    def __init__(self, cluster: Cluster, clock: VirtualClock, type: type[Any], namespace: str = "") -> None:
        self.objects, self._clock, self._type, self._namespace = cluster.client.for_kind(type), clock, type, namespace

    async def create(self, name: str, **content: Any) -> Any:
        meta = {"name": name, "namespace": self._namespace, "labels": {"e2e": "yes"}}
        obj = await self.objects.create(codec.from_value({"metadata": meta, **content}, self._type))
        await self._clock.settle()
        return obj

    async def get(self, name: str) -> Any:
        await self._clock.settle()
        return await self.objects.get(name, self._namespace)

    async def names(self, labels: str = "e2e=yes") -> list[str]:
        await self._clock.settle()
        objects = (await self.objects.list(Selection(namespace=self._namespace, labels=labels))).items
        return sorted(obj.metadata.name for obj in objects)

    async def patch_label(self, name: str, value: str) -> None:
        patch = {"metadata": {"labels": {"word": value}}}
        await self.objects.patch(name, patch, self._namespace, type=PatchType.MERGE)
        assert (await self.get(name)).metadata.labels["word"] == value

    async def update_label(self, name: str, value: str) -> None:
        changed = copy_of(await self.get(name))
        changed.metadata.labels["word"] = value
        await self.objects.update(changed)
        assert (await self.get(name)).metadata.labels["word"] == value

    async def delete(self, name: str) -> None:
        await self.objects.delete(name, self._namespace)
        assert await self.is_gone(name)

    async def is_gone(self, name: str) -> bool:
        try:
            await self.get(name)
        except NotFound:
            return True
        return False

    async def delete_all(self) -> None:
        await self.objects.delete_collection(Selection(namespace=self._namespace, labels="e2e=yes"))
        assert await self.names() == []


def run_scenario(scenario: Callable[[Callable[..., KindClient]], Awaitable[None]]) -> None:
    async def main() -> None:
        clock = VirtualClock()
        async with Cluster(clock=clock) as cluster:
            await scenario(lambda type, namespace="": KindClient(cluster, clock, type, namespace))

    asyncio.run(main())


async def check_lifecycle(kind_client: KindClient, **content: Any) -> None:
    """Create, read, patch, update and delete objects, one by one and as a collection."""
    created = await kind_client.create("first", **content)
    assert (await kind_client.get("first")).metadata.uid == created.metadata.uid
    await kind_client.patch_label("first", "patched")
    assert await kind_client.names("word=patched") == ["first"]
    await kind_client.delete("first")
    await kind_client.create("second", **content)
    await kind_client.update_label("second", "updated")
    await kind_client.delete_all()


def volume_spec() -> dict[str, Any]:
    source = {"driver": "e2e.example.com", "volumeHandle": "e2e-handle"}
    return {**MODES, "capacity": {"storage": "1Gi"}, "csi": source, "persistentVolumeReclaimPolicy": "Retain"}


def claim_spec() -> dict[str, Any]:
    return {**MODES, "resources": {"requests": {"storage": "1Gi"}}}


def test_volume_and_claim_lifecycle() -> None:
    """[sig-storage] PersistentVolumes CSI Conformance should run through the lifecycle of a PV and a PVC"""

    async def scenario(of: Callable[..., KindClient]) -> None:
        volumes, claims = of(PersistentVolume), of(PersistentVolumeClaim, "default")
        for name in ("first", "second"):
            volume = await volumes.create(name, spec=volume_spec())
            claim = await claims.create(name, spec=claim_spec())
            assert await volumes.names() == await claims.names() == [name]
            bound = await claims.get(name)
            assert (bound.status.phase, bound.spec.volumeName) == ("Bound", name)
            assert (bound.metadata.uid, (await volumes.get(name)).metadata.uid) == (
                claim.metadata.uid,
                volume.metadata.uid,
            )
            if name == "first":
                for kind_client in (volumes, claims):
                    await kind_client.patch_label(name, "patched")
                for kind_client in (claims, volumes):
                    await kind_client.delete(name)
            else:
                for kind_client in (volumes, claims):
                    await kind_client.update_label(name, "updated")
                for kind_client in (claims, volumes):
                    await kind_client.delete_all()

    run_scenario(scenario)


def test_volume_and_claim_status() -> None:
    """[sig-storage] PersistentVolumes CSI Conformance should apply changes to a pv/pvc status"""

    async def scenario(of: Callable[..., KindClient]) -> None:
        volumes, claims = of(PersistentVolume), of(PersistentVolumeClaim, "default")
        await volumes.create("v", spec=volume_spec())
        await claims.create("c", spec=claim_spec())
        assert (await claims.get("c")).status.phase == "Bound"
        assert (await volumes.get("v")).status.phase == "Bound"
        condition = {"type": "StatusPatched", "status": "True", "reason": "E2E patchStatus", "message": "Set from e2e"}
        await claims.objects.patch("c", {"status": {"conditions": [condition]}}, "default", subresource="status")
        assert "StatusPatched" in [condition.type for condition in (await claims.get("c")).status.conditions]
        fields = {"status": {"message": "StatusPatched", "reason": "E2E patchStatus"}}
        await volumes.objects.patch("v", fields, type=PatchType.MERGE, subresource="status")
        volume = await volumes.get("v")
        assert (volume.status.message, volume.status.reason) == ("StatusPatched", "E2E patchStatus")
        changed = copy_of(await claims.get("c"))
        changed.status.conditions.append(PersistentVolumeClaimCondition(type="StatusUpdated", status="True"))
        await claims.objects.update_status(changed)
        conditions = {condition.type for condition in (await claims.get("c")).status.conditions}
        assert conditions >= {"StatusPatched", "StatusUpdated"}
        changed = copy_of(volume)
        changed.status.reason = "E2E updateStatus"
        await volumes.objects.update_status(changed)
        assert (await volumes.get("v")).status.reason == "E2E updateStatus"

    run_scenario(scenario)


def test_storage_classes() -> None:
    """[sig-storage] StorageClasses CSI Conformance should run through the lifecycle of a StorageClass"""

    async def scenario(of: Callable[..., KindClient]) -> None:
        await check_lifecycle(of(StorageClass), provisioner="e2e-fake-provisioner")

    run_scenario(scenario)


def test_volume_attributes_classes() -> None:
    """[sig-storage] VolumeAttributesClass [FeatureGate:VolumeAttributesClass] should run through the lifecycle of a
    VolumeAttributesClass"""

    async def scenario(of: Callable[..., KindClient]) -> None:
        await check_lifecycle(of(VolumeAttributesClass), driverName="e2e-fake-csi-driver", parameters={"foo": "bar"})

    run_scenario(scenario)


def test_storage_capacities(api: Api) -> None:
    """[sig-storage] CSIStorageCapacity should support CSIStorageCapacities API operations"""
    capacities = check_api_operations(api, "storage.k8s.io", "csistoragecapacities", storageClassName="e2e")
    capacities.create("everywhere", {"everywhere": api.namespace}, storageClassName="e2e")
    assert capacities.names(f"everywhere={api.namespace}", path=capacities.all_namespaces_path) == ["everywhere"]


ATTACHMENT = {"attacher": "e2e-test.com", "nodeName": "node", "source": {"persistentVolumeName": "v"}}


def test_csi_drivers() -> None:
    """[sig-storage] CSIInlineVolumes should run through the lifecycle of a CSIDriver [Conformance]"""

    async def scenario(of: Callable[..., KindClient]) -> None:
        await check_lifecycle(of(CSIDriver), spec={"attachRequired": False, "volumeLifecycleModes": ["Ephemeral"]})

    run_scenario(scenario)


def test_csi_volumes_in_pods() -> None:
    """[sig-storage] CSIInlineVolumes should support CSIVolumeSource in Pod API [Conformance]"""

    async def scenario(of: Callable[..., KindClient]) -> None:
        drivers, pods = of(CSIDriver), of(Pod, "default")
        await drivers.create("inline.example.com", spec={"volumeLifecycleModes": ["Ephemeral"]})
        volume = {"name": "v", "csi": {"driver": "inline.example.com", "volumeAttributes": {"size": "1"}}}
        container = {"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        pod = await pods.create("p", spec={"containers": [container], "volumes": [volume]})
        for present in (pod, await pods.get("p")):
            [source] = [volume.csi for volume in present.spec.volumes if volume.csi is not None]
            assert (source.driver, source.volumeAttributes) == ("inline.example.com", {"size": "1"})
        await pods.patch_label("p", "patched")
        assert await pods.names("word=patched") == ["p"]
        await pods.objects.delete("p", "default", options=DeleteParameters(grace_period_s=0))
        assert await pods.is_gone("p")
        await drivers.delete("inline.example.com")

    run_scenario(scenario)


def test_csi_nodes() -> None:
    """[sig-storage] CSINodes CSI Conformance should run through the lifecycle of a csinode [Conformance]"""

    async def scenario(of: Callable[..., KindClient]) -> None:
        driver = {"name": "e2e.example.com", "nodeID": "e2e-node", "topologyKeys": ["example.com/zone"]}
        await check_lifecycle(of(CSINode), spec={"drivers": [driver]})

    run_scenario(scenario)


def test_volume_attachments() -> None:
    """[sig-storage] VolumeAttachment Conformance should run through the lifecycle of a VolumeAttachment"""

    async def scenario(of: Callable[..., KindClient]) -> None:
        await check_lifecycle(of(VolumeAttachment), spec=ATTACHMENT)

    run_scenario(scenario)


def test_volume_attachment_status() -> None:
    """[sig-storage] VolumeAttachment Conformance should apply changes to a volumeattachment status"""

    async def scenario(of: Callable[..., KindClient]) -> None:
        attachments = of(VolumeAttachment)
        await attachments.create("a", spec=ATTACHMENT)
        await attachments.patch_label("a", "patched")
        assert (await attachments.get("a")).status.attached is False
        await attachments.objects.patch("a", {"status": {"attached": True}}, subresource="status")
        attachment = await attachments.get("a")
        assert attachment.status.attached is True
        changed = copy_of(attachment)
        changed.status.attached = False
        await attachments.objects.update_status(changed)
        assert (await attachments.get("a")).status.attached is False
        await attachments.delete("a")

    run_scenario(scenario)
