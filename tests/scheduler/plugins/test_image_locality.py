"""ImageLocality against a version that looks at one node at a time."""

from hypothesis import given
from hypothesis import strategies as st

from sampan.api.types.core_v1 import ImageVolumeSource, Volume
from tests.scheduler.random_clusters import MIB, Situation, few, scores, situations


@few
@given(situations(most_pods=0), st.booleans())
def test_images_on_a_node_raise_its_score(situation: Situation, with_volume: bool) -> None:
    pod = situation.pod
    images = [container.image for container in (*pod.spec.initContainers, *(pod.spec.containers or ()))]
    if with_volume:
        pod.spec.volumes = [Volume(name="image", image=ImageVolumeSource(reference="large:1"))]
        images.append("large:1")
    full = [name if ":" in name.rpartition("/")[2] else f"{name}:latest" for name in images]
    size: dict[str, int] = {}
    having: dict[str, set[str]] = {}
    for node in situation.nodes:
        sizes = {name: image.sizeBytes for image in node.status.images for name in image.names or ()}
        for name, bytes_ in sizes.items():
            size.setdefault(name, bytes_)
            having.setdefault(name, set()).add(node.metadata.name)
    expected = {}
    for node in situation.nodes:
        total = sum(
            int(size[name] * (len(having[name]) / len(situation.nodes)))
            for name in full
            if node.metadata.name in having.get(name, ())
        )
        least_, most_ = 23 * MIB, 1000 * MIB * len(images)
        expected[node.metadata.name] = 100 * (min(max(total, least_), most_) - least_) // (most_ - least_)
    actual = scores(situation.simulation("ImageLocality"), "ImageLocality", pod, list(expected))
    assert actual == (expected if any(name in having for name in full) else None)
