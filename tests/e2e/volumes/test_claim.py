"""A claim's whole way: from a class to a file in a container, past the pod's end, and away."""

import asyncio
import hashlib
from pathlib import Path

import pytest

from sampan.api.types.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from sampan.api.types.storage_v1 import CSIDriver, CSINode, StorageClass, VolumeAttachment
from sampan.machinery.client import PatchType
from sampan.runtimes import kernel
from sampan.testing import Cluster
from tests.e2e.conformance.storage.real_node import NODE, why_not
from tests.e2e.volumes.real_node_cluster import Scene, output_of
from tests.e2e.volumes.storage_vendor import ZONE, Vendor
from tests.eventually import eventually
from tests.kubelet.volumes.csi_driver import NAME, DirectoryDriver


async def test_the_whole_way(tmp_path: Path) -> None:
    if reason := why_not():
        pytest.skip(reason)

    async with asyncio.timeout(150), Cluster(nodes=1, runtime="oci") as cluster:
        scene, driver = Scene(cluster), DirectoryDriver(tmp_path / "data", topology={ZONE: "z1"})
        vendor = Vendor(client=cluster.client, driver=NAME, data=tmp_path / "data")
        async with driver.serving(scene.root / "plugins_registry"), vendor.running():
            await walk(scene, driver, tmp_path / "data")
    assert kernel.mounts_below(scene.root) == []


async def elsewhere(scene: Scene) -> None:
    """A node with much more room, in a zone that the driver's volumes cannot be reached from: nobody runs it."""
    room = {"cpu": "1000", "memory": "1000Gi", "pods": "1000"}
    await scene.create(Node, "elsewhere")
    labels = {"metadata": {"labels": {ZONE: "z2"}}}
    await scene.client.of(Node).patch("elsewhere", labels, type=PatchType.MERGE)
    ready = {"status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}}
    await scene.client.of(Node).patch("elsewhere", ready, type=PatchType.MERGE, subresource="status")


async def walk(scene: Scene, driver: DirectoryDriver, data: Path) -> None:
    await driver.registered.wait()
    await scene.when(CSINode, NODE, lambda obj: bool(obj.spec.drivers))
    await scene.create(CSIDriver, NAME, spec={"attachRequired": True, "fsGroupPolicy": "File"})
    await elsewhere(scene)
    zones = [{"matchLabelExpressions": [{"key": ZONE, "values": ["z1"]}]}]
    await scene.create(
        StorageClass,
        "folders",
        provisioner=NAME,
        volumeBindingMode="WaitForFirstConsumer",
        allowedTopologies=zones,
    )
    claim_spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    claim = await scene.create(
        PersistentVolumeClaim, "c", "default", spec={**claim_spec, "storageClassName": "folders"}
    )
    name = f"pvc-{claim.metadata.uid}"

    # Scheduled with its topology, and provisioned.
    pod = await scene.with_claim("first", "echo kept > /data/file; until [ -e /data/end ]; do sleep 0.1; done")
    bound = await scene.when(PersistentVolumeClaim, "c", lambda obj: obj.status.phase == "Bound", "default")
    assert (bound.spec.volumeName, bound.metadata.annotations["volume.kubernetes.io/selected-node"]) == (name, NODE)
    pod = await scene.when(Pod, "first", lambda obj: obj.status.phase == "Running", "default")
    assert pod.spec.nodeName == NODE

    # Attached, with the node's word for it.
    attachment = f"csi-{hashlib.sha256(f'{name}{NAME}{NODE}'.encode()).hexdigest()}"
    assert (await scene.client.of(VolumeAttachment).get(attachment)).status.attached
    unique = f"kubernetes.io/csi/{NAME}^{name}"
    node = await scene.client.of(Node).get(NODE)
    assert (node.status.volumesInUse, [attached_volume.name for attached_volume in node.status.volumesAttached]) == (
        [unique],
        [unique],
    )

    # Mounted at the global path, and from there in the pod, and in its container.
    staged = scene.root / f"plugins/kubernetes.io/csi/{NAME}/{hashlib.sha256(name.encode()).hexdigest()}/globalmount"
    published = scene.root / f"pods/{pod.metadata.uid}/volumes/kubernetes.io~csi/{name}/mount"
    assert {staged, published} <= set(kernel.mounts_below(scene.root))
    assert dict(driver.of("NodeStageVolume")[0].publish_context) == {"device": "/dev/vdx"}
    await eventually((data / name / "file").exists)
    (data / name / "end").touch()
    await scene.when(Pod, "first", lambda obj: obj.status.phase == "Succeeded", "default")

    # It survives the pod; nobody has it then.
    await scene.client.of(Pod).delete("first", "default")
    await scene.gone(Pod, "first", "default")
    await scene.gone(VolumeAttachment, attachment)
    assert {staged, published} & set(kernel.mounts_below(scene.root)) == set()
    assert (await scene.client.of(Node).get(NODE)).status.volumesInUse == []
    assert (data / name / "file").read_text() == "kept\n"
    await scene.with_claim("second", "cat /data/file")
    second = await scene.phase("second", "Succeeded")
    assert (output_of(second), second.spec.nodeName) == ("kept", NODE)
    await scene.client.of(Pod).delete("second", "default")
    await scene.gone(VolumeAttachment, attachment)

    # Reclaimed by policy.
    await scene.client.of(PersistentVolumeClaim).delete("c", "default")
    await scene.gone(PersistentVolume, name)
    assert not (data / name).exists()
