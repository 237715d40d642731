"""ImageLocality: prefers nodes that already have the pod's images, weighted by size."""

from __future__ import annotations

import numpy as np

from sampan.api.semantics.pods import init_and_main_containers
from sampan.api.types.core_v1 import PodSpec
from sampan.scheduler.cache.arrays import Ints, Rows, count_of
from sampan.scheduler.cache.node_attributes import to_dense
from sampan.scheduler.framework.contract import MAX_SCORE, SKIP, CycleState, PluginScope, Status
from sampan.scheduler.framework.handle import Handle

_MIB = 1024 * 1024
_MIN_THRESHOLD_BYTES = 23 * _MIB
_MAX_IMAGE_THRESHOLD_BYTES = 1000 * _MIB


class ImageLocality:
    name = "ImageLocality"
    scope = PluginScope.CLUSTER

    def __init__(self, handle: Handle) -> None:
        pass

    def pre_score(self, cycle: CycleState, rows: Rows) -> Status | None:
        images = cycle.table.images
        return (
            None
            if any(images.nodes_with(name) for name in cycle.signature.parse_once(self.name, image_names))
            else SKIP
        )

    def score(self, cycle: CycleState, rows: Rows) -> Ints:
        table, names = cycle.table, cycle.signature.parse_once(self.name, image_names)
        total = np.zeros(count_of(rows), dtype=np.int64)
        for name in names:
            sizes = table.images.nodes_with(name)
            if sizes:
                scaled = int(next(iter(sizes.values())) * (len(sizes) / table.count))
                total += to_dense(dict.fromkeys(sizes, scaled), table.used)[rows]
        maximum = _MAX_IMAGE_THRESHOLD_BYTES * len(names)
        return (
            MAX_SCORE
            * (np.clip(total, _MIN_THRESHOLD_BYTES, maximum) - _MIN_THRESHOLD_BYTES)
            // (maximum - _MIN_THRESHOLD_BYTES)
        )


def image_names(spec: PodSpec) -> tuple[str, ...]:
    """Return the images of all containers and image volumes, with the default tag added."""
    images = [container.image for container in init_and_main_containers(spec)]
    images += [volume.image.reference for volume in spec.volumes if volume.image is not None]
    return tuple(normalize_image_name(name) for name in images)


def normalize_image_name(name: str) -> str:
    return f"{name}:latest" if name.rfind(":") <= name.rfind("/") else name
