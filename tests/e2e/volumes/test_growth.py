"""A claim that gets more while its pod runs: asked for, made larger by its vendor, made larger on the node, seen by the
container and by who looks at the node's figures."""

import asyncio
from pathlib import Path

import pytest

from sampan.api.types.core_v1 import PersistentVolumeClaim, Pod
from sampan.api.types.storage_v1 import CSIDriver, CSINode, StorageClass, VolumeAttachment
from sampan.kubelet.volumes.csi.conversions import attachment_name
from sampan.machinery.client import PatchType
from sampan.runtimes import kernel
from sampan.testing import Cluster
from tests.e2e.conformance.storage.real_node import NODE, why_not
from tests.e2e.volumes.real_node_cluster import Scene, output_of
from tests.e2e.volumes.storage_vendor import ZONE, Vendor
from tests.kubelet.volumes.csi_driver import NAME, GrowingDriver

SIZE = "stat -f -c '%b %S' /data"


async def test_a_claim_gets_more(tmp_path: Path) -> None:
    if reason := why_not():
        pytest.skip(reason)

    async with asyncio.timeout(150), Cluster(nodes=1, runtime="oci") as cluster:
        scene, driver = Scene(cluster), GrowingDriver(tmp_path / "data", topology={ZONE: "z1"})
        vendor = Vendor(client=cluster.client, driver=NAME, data=tmp_path / "data")
        async with driver.serving(scene.root / "plugins_registry"), vendor.running():
            await grow(scene, driver)
    assert kernel.mounts_below(scene.root) == []


async def grow(scene: Scene, driver: GrowingDriver) -> None:
    await scene.when(CSINode, NODE, lambda obj: bool(obj.spec.drivers))
    await scene.create(CSIDriver, NAME, spec={"attachRequired": True})
    await scene.create(
        StorageClass,
        "memory",
        provisioner=NAME,
        volumeBindingMode="WaitForFirstConsumer",
        allowVolumeExpansion=True,
    )
    claim_spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    await scene.create(PersistentVolumeClaim, "c", "default", spec={**claim_spec, "storageClassName": "memory"})
    await scene.with_claim("p", f"{SIZE}; until [ -e /data/end ]; do sleep 0.1; done; {SIZE}")
    pod = await scene.phase("p", "Running")

    claims, more = scene.client.of(PersistentVolumeClaim), {"spec": {"resources": {"requests": {"storage": "4Mi"}}}}
    await claims.patch("c", more, "default", type=PatchType.MERGE)
    pending = {"storage": "NodeResizePending"}
    await scene.when(PersistentVolumeClaim, "c", lambda obj: obj.status.allocatedResourceStatuses == pending, "default")
    note = {"metadata": {"annotations": {"looked": "at"}}}
    await scene.client.of(Pod).patch("p", note, "default", type=PatchType.MERGE)
    grown = await scene.when(
        PersistentVolumeClaim, "c", lambda obj: obj.status.capacity == {"storage": "4Mi"}, "default"
    )
    assert (grown.status.conditions, grown.status.allocatedResourceStatuses) == ([], {})

    directory = scene.root / f"pods/{pod.metadata.uid}/volumes/kubernetes.io~csi/{grown.spec.volumeName}/mount"
    (directory / "end").touch()
    ended = await scene.phase("p", "Succeeded")
    sizes = [int(count) * int(size) for count, size in (line.split() for line in output_of(ended).splitlines())]
    assert sizes == [1 << 20, 4 << 20]
    await scene.client.of(Pod).delete("p", "default")
    await scene.gone(VolumeAttachment, attachment_name(str(grown.spec.volumeName), NAME, NODE))
