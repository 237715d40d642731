"""NodeVolumeLimits against a version that looks at one node at a time, on random claims, volumes and limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.feature_gates import FeatureGates
from sampan.api.types.core_v1 import Pod
from sampan.api.types.storage_v1 import VolumeAttachment
from sampan.machinery.object_key import key_of
from tests.scheduler.plugins.random_storage import DRIVER, Storage, many, storage_clusters
from tests.scheduler.random_clusters import Rejections, rejections


def handle_of(storage: Storage, name: str) -> str | None:
    claim = storage.claim(name)
    assert claim is not None
    volume = storage.volume(claim.spec.volumeName)
    if volume is not None:
        return volume.spec.csi.volumeHandle if volume.spec.csi is not None else None
    return f"new {name}" if claim.spec.storageClassName != "static" else None


def handles(storage: Storage, pod: Pod) -> set[str]:
    handles_ = {handle_of(storage, volume.persistentVolumeClaim.claimName) for volume in pod.spec.volumes}  # type: ignore[union-attr]
    return {handle for handle in handles_ if handle is not None}


@pytest.mark.parametrize("is_scaling", [False, True])
@many
@given(st.data())
def test_nodes_without_the_driver_or_whose_limit_is_reached_are_rejected(is_scaling: bool, data: st.DataObject) -> None:
    drawn = data.draw(storage_clusters(FeatureGates({"VolumeLimitScaling": is_scaling}, level=37)))
    situation, storage, simulation = drawn
    rejections(simulation, "NodeVolumeLimits", situation.pod)
    one_goes: bool = data.draw(st.booleans())
    if situation.pods and one_goes:
        gone = situation.pods.pop()
        simulation.table.remove_pod(gone.metadata.uid, gone.spec.nodeName)
    one_is_detached: bool = data.draw(st.booleans())
    if storage.attachments and one_is_detached:
        detached = storage.attachments.pop()
        simulation.handle.informers.for_kind(VolumeAttachment)._remove(key_of(detached))
    expected: Rejections = {}
    for node in situation.nodes:
        name = node.metadata.name
        own_nodes = [csi_node for csi_node in storage.nodes if csi_node.metadata.name == name]
        is_required = is_scaling and storage.drivers[0].spec.preventPodSchedulingIfMissing
        if is_required and not own_nodes and handles(storage, situation.pod):
            expected[name] = ((f"{DRIVER} CSI driver is not installed on the node",), False)
        limits = [csi_node.spec.drivers[0].allocatable for csi_node in own_nodes]  # type: ignore[index]
        if not limits or limits[0] is None or limits[0].count is None:
            continue
        there: set[str] = set().union(*(handles(storage, pod) for pod in situation.pods_on(node)))
        more = handles(storage, situation.pod) - there
        for attachment in storage.attachments:
            volume = storage.volume(attachment.spec.source.persistentVolumeName or "")
            if attachment.spec.nodeName == name and volume is not None and volume.spec.csi is not None:
                there.add(volume.spec.csi.volumeHandle)
        if more and len(there) + len(more) > limits[0].count:
            expected[name] = (("node(s) exceed max volume count",), False)
    assert rejections(simulation, "NodeVolumeLimits", situation.pod) == expected
