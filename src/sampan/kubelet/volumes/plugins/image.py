"""image volumes: the files of an image. The runtime mounts them; the node only has to pull the image."""

from __future__ import annotations

from pathlib import Path

from sampan.api.types.core_v1 import ImageVolumeSource
from sampan.kubelet.volumes.contract import PluginBase, Ready, Spec

NAME = "kubernetes.io/image"


class Image(PluginBase):
    name = NAME

    def supports(self, spec: Spec) -> bool:
        return spec.volume.image is not None

    async def set_up(self, spec: Spec) -> Ready:
        source = spec.volume.image or ImageVolumeSource()
        return Ready(path=Path("/"), is_read_only=True, image=source.reference)

    async def tear_down(self, uid: str, inner: str) -> None:
        return None
