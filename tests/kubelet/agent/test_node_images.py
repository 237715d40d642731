"""The images in a node's status."""

from sampan.kubelet.agent.node_status_updater import node_images
from sampan.runtimes.contract import ImageInfo


def test_the_largest_with_their_names() -> None:
    many = [ImageInfo(id=str(at), names=[f"image-{at}"], size=at) for at in range(60)]
    container_images = node_images([*many, ImageInfo(id="nameless", size=1000)])
    assert [image.sizeBytes for image in container_images] == list(range(59, 9, -1))
    assert container_images[0].names == ["image-59"]


def test_digests_come_first_and_not_too_many() -> None:
    (container_image,) = node_images(
        [ImageInfo(id="x", names=[f"n{at}" for at in range(9)], digests=["a@sha256:1"], size=7)]
    )
    assert container_image.names == ["a@sha256:1", "n0", "n1", "n2", "n3"]
