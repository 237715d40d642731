"""image volumes: the files of an image. The runtime mounts them; the node only has to pull the image."""

from __future__ import annotations

from pathlib import Path

from sampan.api.types.core_v1 import ImageVolumeSource
from sampan.kubelet.volumes.contract import ReadyVolume, VolumePluginBase, VolumeSpec

NAME = "kubernetes.io/image"


class ImagePlugin(VolumePluginBase):
    name = NAME

    def supports(self, spec: VolumeSpec) -> bool:
        return spec.volume.image is not None

    async def set_up(self, spec: VolumeSpec) -> ReadyVolume:
        source = spec.volume.image or ImageVolumeSource()
        return ReadyVolume(path=Path("/"), is_read_only=True, image=source.reference)

    async def tear_down(self, uid: str, inner: str) -> None:
        return None
