"""The lifecycle of a PersistentVolumeClaim: from a StorageClass to a file in a container, past the deletion of the pod,
to reclaim."""

import asyncio
import hashlib
from pathlib import Path

import pytest

from sampan.api.types.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from sampan.api.types.storage_v1 import CSIDriver, CSINode, StorageClass, VolumeAttachment
from sampan.machinery.client import PatchType
from sampan.runtimes import kernel
from sampan.testing import Cluster
from tests.e2e.conformance.storage.real_node import NODE, missing_requirement
from tests.e2e.volumes.real_node_cluster import RealNodeCluster, output_of
from tests.e2e.volumes.storage_vendor import ZONE, Vendor
from tests.eventually import eventually
from tests.kubelet.volumes.csi_driver import NAME, DirectoryDriver


async def test_claim_is_provisioned_attached_mounted_reused_and_reclaimed(tmp_path: Path) -> None:
    if reason := missing_requirement():
        pytest.skip(reason)

    async with asyncio.timeout(150), Cluster(nodes=1, runtime="oci") as cluster:
        real_node, driver = RealNodeCluster(cluster), DirectoryDriver(tmp_path / "data", topology={ZONE: "z1"})
        vendor = Vendor(client=cluster.client, driver=NAME, data=tmp_path / "data")
        async with driver.serving(real_node.root / "plugins_registry"), vendor.running():
            await check_claim_lifecycle(real_node, driver, tmp_path / "data")
    assert kernel.mounts_below(real_node.root) == []


async def create_node_in_another_zone(real_node: RealNodeCluster) -> None:
    """Create a node without a kubelet that has more capacity, in a zone from which the driver's volumes cannot be
    reached."""
    room = {"cpu": "1000", "memory": "1000Gi", "pods": "1000"}
    await real_node.create(Node, "elsewhere")
    labels = {"metadata": {"labels": {ZONE: "z2"}}}
    await real_node.client.for_kind(Node).patch("elsewhere", labels, type=PatchType.MERGE)
    ready = {"status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}}
    await real_node.client.for_kind(Node).patch("elsewhere", ready, type=PatchType.MERGE, subresource="status")


async def check_claim_lifecycle(real_node: RealNodeCluster, driver: DirectoryDriver, data: Path) -> None:
    await driver.registered.wait()
    await real_node.wait_for(CSINode, NODE, lambda obj: bool(obj.spec.drivers))
    await real_node.create(CSIDriver, NAME, spec={"attachRequired": True, "fsGroupPolicy": "File"})
    await create_node_in_another_zone(real_node)
    zones = [{"matchLabelExpressions": [{"key": ZONE, "values": ["z1"]}]}]
    await real_node.create(
        StorageClass,
        "folders",
        provisioner=NAME,
        volumeBindingMode="WaitForFirstConsumer",
        allowedTopologies=zones,
    )
    claim_spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    claim = await real_node.create(
        PersistentVolumeClaim, "c", "default", spec={**claim_spec, "storageClassName": "folders"}
    )
    name = f"pvc-{claim.metadata.uid}"

    # The pod is scheduled by topology, and the volume is provisioned.
    pod = await real_node.create_pod_with_claim(
        "first", "echo kept > /data/file; until [ -e /data/end ]; do sleep 0.1; done"
    )
    bound = await real_node.wait_for(PersistentVolumeClaim, "c", lambda obj: obj.status.phase == "Bound", "default")
    assert (bound.spec.volumeName, bound.metadata.annotations["volume.kubernetes.io/selected-node"]) == (name, NODE)
    pod = await real_node.wait_for(Pod, "first", lambda obj: obj.status.phase == "Running", "default")
    assert pod.spec.nodeName == NODE

    # The volume is attached, and the status of the node shows it.
    attachment = f"csi-{hashlib.sha256(f'{name}{NAME}{NODE}'.encode()).hexdigest()}"
    assert (await real_node.client.for_kind(VolumeAttachment).get(attachment)).status.attached
    unique = f"kubernetes.io/csi/{NAME}^{name}"
    node = await real_node.client.for_kind(Node).get(NODE)
    assert (node.status.volumesInUse, [attached_volume.name for attached_volume in node.status.volumesAttached]) == (
        [unique],
        [unique],
    )

    # The volume is staged at the global path, published to the pod, and mounted in its container.
    staged = (
        real_node.root / f"plugins/kubernetes.io/csi/{NAME}/{hashlib.sha256(name.encode()).hexdigest()}/globalmount"
    )
    published = real_node.root / f"pods/{pod.metadata.uid}/volumes/kubernetes.io~csi/{name}/mount"
    assert {staged, published} <= set(kernel.mounts_below(real_node.root))
    assert dict(driver.list_requests("NodeStageVolume")[0].publish_context) == {"device": "/dev/vdx"}
    await eventually((data / name / "file").exists)
    (data / name / "end").touch()
    await real_node.wait_for(Pod, "first", lambda obj: obj.status.phase == "Succeeded", "default")

    # The volume survives the pod and is detached.
    await real_node.client.for_kind(Pod).delete("first", "default")
    await real_node.wait_until_gone(Pod, "first", "default")
    await real_node.wait_until_gone(VolumeAttachment, attachment)
    assert {staged, published} & set(kernel.mounts_below(real_node.root)) == set()
    assert (await real_node.client.for_kind(Node).get(NODE)).status.volumesInUse == []
    assert (data / name / "file").read_text() == "kept\n"
    await real_node.create_pod_with_claim("second", "cat /data/file")
    second = await real_node.wait_for_phase("second", "Succeeded")
    assert (output_of(second), second.spec.nodeName) == ("kept", NODE)
    await real_node.client.for_kind(Pod).delete("second", "default")
    await real_node.wait_until_gone(VolumeAttachment, attachment)

    # The volume is deleted by its reclaim policy.
    await real_node.client.for_kind(PersistentVolumeClaim).delete("c", "default")
    await real_node.wait_until_gone(PersistentVolume, name)
    assert not (data / name).exists()
