"""Expansion of a claim while its pod runs: requested, done by the vendor's controller and on the node, and visible in
the container."""

import asyncio
from pathlib import Path

import pytest

from sampan.api.types.core_v1 import PersistentVolumeClaim, Pod
from sampan.api.types.storage_v1 import CSIDriver, CSINode, StorageClass, VolumeAttachment
from sampan.kubelet.volumes.csi.conversions import attachment_name
from sampan.machinery.client import PatchType
from sampan.runtimes import kernel
from sampan.testing import Cluster
from tests.e2e.conformance.storage.real_node import NODE, missing_requirement
from tests.e2e.volumes.real_node_cluster import RealNodeCluster, output_of
from tests.e2e.volumes.storage_vendor import ZONE, Vendor
from tests.kubelet.volumes.csi_driver import NAME, GrowingDriver

SIZE = "stat -f -c '%b %S' /data"


async def test_claim_of_a_running_pod_is_expanded_on_the_node(tmp_path: Path) -> None:
    if reason := missing_requirement():
        pytest.skip(reason)

    async with asyncio.timeout(150), Cluster(nodes=1, runtime="oci") as cluster:
        real_node, driver = RealNodeCluster(cluster), GrowingDriver(tmp_path / "data", topology={ZONE: "z1"})
        vendor = Vendor(client=cluster.client, driver=NAME, data=tmp_path / "data")
        async with driver.serving(real_node.root / "plugins_registry"), vendor.running():
            await check_expansion(real_node, driver)
    assert kernel.mounts_below(real_node.root) == []


async def check_expansion(real_node: RealNodeCluster, driver: GrowingDriver) -> None:
    await real_node.wait_for(CSINode, NODE, lambda obj: bool(obj.spec.drivers))
    await real_node.create(CSIDriver, NAME, spec={"attachRequired": True})
    await real_node.create(
        StorageClass,
        "memory",
        provisioner=NAME,
        volumeBindingMode="WaitForFirstConsumer",
        allowVolumeExpansion=True,
    )
    claim_spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    await real_node.create(PersistentVolumeClaim, "c", "default", spec={**claim_spec, "storageClassName": "memory"})
    await real_node.create_pod_with_claim("p", f"{SIZE}; until [ -e /data/end ]; do sleep 0.1; done; {SIZE}")
    pod = await real_node.wait_for_phase("p", "Running")

    claims, more = (
        real_node.client.for_kind(PersistentVolumeClaim),
        {"spec": {"resources": {"requests": {"storage": "4Mi"}}}},
    )
    await claims.patch("c", more, "default", type=PatchType.MERGE)
    pending = {"storage": "NodeResizePending"}
    await real_node.wait_for(
        PersistentVolumeClaim, "c", lambda obj: obj.status.allocatedResourceStatuses == pending, "default"
    )
    note = {"metadata": {"annotations": {"looked": "at"}}}
    await real_node.client.for_kind(Pod).patch("p", note, "default", type=PatchType.MERGE)
    grown = await real_node.wait_for(
        PersistentVolumeClaim, "c", lambda obj: obj.status.capacity == {"storage": "4Mi"}, "default"
    )
    assert [condition.type for condition in grown.status.conditions] == ["Unused"]
    assert grown.status.allocatedResourceStatuses == {}

    directory = real_node.root / f"pods/{pod.metadata.uid}/volumes/kubernetes.io~csi/{grown.spec.volumeName}/mount"
    (directory / "end").touch()
    ended = await real_node.wait_for_phase("p", "Succeeded")
    sizes = [int(count) * int(size) for count, size in (line.split() for line in output_of(ended).splitlines())]
    assert sizes == [1 << 20, 4 << 20]
    await real_node.client.for_kind(Pod).delete("p", "default")
    await real_node.wait_until_gone(VolumeAttachment, attachment_name(str(grown.spec.volumeName), NAME, NODE))
