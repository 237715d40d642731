"""Pure choice of the images in the node status, which the scheduler uses for image locality."""

from __future__ import annotations

from collections.abc import Sequence

from sampan.api.types.core_v1 import ContainerImage
from sampan.runtimes.contract import ImageInfo

_MOST_NAMES = 5


def node_images(found: Sequence[ImageInfo], most: int = 50) -> list[ContainerImage]:
    """Return the `most` largest images, each with a few of its names; all of them if `most` is -1."""
    named = [image for image in found if image.digests or image.names]
    largest = sorted(named, key=lambda image: (-image.size, image.id))[: most if most >= 0 else None]
    return [
        ContainerImage(names=[*image.digests, *image.names][:_MOST_NAMES], sizeBytes=image.size) for image in largest
    ]
