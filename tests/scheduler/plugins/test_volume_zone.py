"""VolumeZone against a version that looks at one node at a time, on random claims, volumes, classes and limits."""

from hypothesis import given

from sampan.scheduler.simulation import Simulation
from tests.scheduler.plugins.random_storage import OLD_ZONE, REGION, Storage, many, storage_clusters
from tests.scheduler.random_clusters import ZONE, Rejections, Situation, rejections


@many
@given(storage_clusters())
def test_nodes_outside_the_zones_of_a_volume_are_rejected(drawn: tuple[Situation, Storage, Simulation]) -> None:
    situation, storage, simulation = drawn
    whole, places = "", []
    for volume in situation.pod.spec.volumes:
        claim = storage.claim(volume.persistentVolumeClaim.claimName)  # type: ignore[union-attr]
        assert claim is not None
        if not claim.spec.volumeName:
            if claim.spec.storageClassName == "now":
                whole = "PersistentVolume had no name"
                break
            continue
        volume_ = storage.volume(claim.spec.volumeName)
        if volume_ is None:
            whole = f'persistentvolume "{claim.spec.volumeName}" not found'
            break
        places += [
            (key, volume_.metadata.labels[key].split("__"))
            for key in (OLD_ZONE, ZONE, REGION)
            if key in volume_.metadata.labels
        ]
    expected: Rejections = {}
    for node in situation.nodes:
        labels = node.metadata.labels
        says = any(key in labels for key in (OLD_ZONE, ZONE, REGION))
        far = any(
            labels.get(key, labels.get(ZONE) if key == OLD_ZONE else None) not in values for key, values in places
        )
        if whole:
            expected[node.metadata.name] = ((whole,), True)
        elif says and far:
            expected[node.metadata.name] = (("node(s) had no available volume zone",), True)
    assert rejections(simulation, "VolumeZone", situation.pod) == expected
