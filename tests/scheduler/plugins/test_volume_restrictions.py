"""VolumeRestrictions against a version that looks at one node at a time, on random claims and volumes."""

from hypothesis import given
from hypothesis import strategies as st

from sampan.api.types.core_v1 import (
    AWSElasticBlockStoreVolumeSource,
    GCEPersistentDiskVolumeSource,
    ISCSIVolumeSource,
    Pod,
    RBDVolumeSource,
    Volume,
)
from sampan.scheduler.simulation import Simulation
from tests.scheduler.plugins.random_storage import Storage, many, storage_clusters
from tests.scheduler.random_clusters import Rejections, Situation, rejections

disks = st.one_of(
    st.builds(GCEPersistentDiskVolumeSource, pdName=st.sampled_from(["d", "e"]), readOnly=st.booleans()).map(
        lambda source: Volume(name="disk", gcePersistentDisk=source)
    ),
    st.builds(AWSElasticBlockStoreVolumeSource, volumeID=st.sampled_from(["d", "e"])).map(
        lambda source: Volume(name="disk", awsElasticBlockStore=source)
    ),
    st.builds(
        ISCSIVolumeSource,
        iqn=st.sampled_from(["d", "e"]),
        targetPortal=st.just("t"),
        lun=st.just(0),
        readOnly=st.booleans(),
    ).map(lambda source: Volume(name="disk", iscsi=source)),
    st.builds(
        RBDVolumeSource,
        monitors=st.lists(st.sampled_from("mno"), min_size=1, max_size=2),
        image=st.sampled_from(["d", "e"]),
        readOnly=st.booleans(),
    ).map(lambda source: Volume(name="disk", rbd=source)),
)


def is_disk_conflict(first: Volume, other: Volume) -> bool:
    if first.gcePersistentDisk and other.gcePersistentDisk:
        both_read = first.gcePersistentDisk.readOnly and other.gcePersistentDisk.readOnly
        return first.gcePersistentDisk.pdName == other.gcePersistentDisk.pdName and not both_read
    if first.awsElasticBlockStore and other.awsElasticBlockStore:
        return first.awsElasticBlockStore.volumeID == other.awsElasticBlockStore.volumeID
    if first.iscsi and other.iscsi:
        return first.iscsi.iqn == other.iscsi.iqn and not (first.iscsi.readOnly and other.iscsi.readOnly)
    if first.rbd and other.rbd:
        near = bool(set(first.rbd.monitors or ()) & set(other.rbd.monitors or ()))
        return near and first.rbd.image == other.rbd.image and not (first.rbd.readOnly and other.rbd.readOnly)
    return False


@many
@given(storage_clusters(), st.data())
def test_disks_and_claims_in_use_reject_a_node(
    drawn: tuple[Situation, Storage, Simulation], data: st.DataObject
) -> None:
    situation, storage, _ = drawn
    for pod in (situation.pod, *situation.pods):
        pod.spec.volumes = [*pod.spec.volumes, *data.draw(st.lists(disks, max_size=1))]
    simulation = situation.simulation("VolumeRestrictions")
    storage.put_into(simulation)

    def exclusive_claims(pod: Pod) -> set[str]:
        names = {volume.persistentVolumeClaim.claimName for volume in pod.spec.volumes if volume.persistentVolumeClaim}
        return {
            claim.metadata.name
            for claim in storage.claims
            if claim.metadata.name in names and "ReadWriteOncePod" in claim.spec.accessModes
        }

    is_taken = any(exclusive_claims(situation.pod) & exclusive_claims(pod) for pod, _ in situation.placed_pods)
    expected: Rejections = {}
    for node in situation.nodes:
        clashing = any(
            is_disk_conflict(volume, other)
            for pod in situation.pods_on(node)
            for volume in situation.pod.spec.volumes
            for other in pod.spec.volumes
        )
        if clashing:
            expected[node.metadata.name] = (("node(s) had no available disk",), False)
        elif is_taken:
            reason = "PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
            expected[node.metadata.name] = ((f"node(s) unavailable due to {reason}",), False)
    assert rejections(simulation, "VolumeRestrictions", situation.pod) == expected
