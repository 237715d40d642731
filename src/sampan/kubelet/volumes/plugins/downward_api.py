"""downwardAPI volumes: fields of the pod as files on tmpfs."""

from __future__ import annotations

from sampan.api.types.core_v1 import DownwardAPIVolumeSource
from sampan.kubelet.volumes import payloads
from sampan.kubelet.volumes.atomic import Payload
from sampan.kubelet.volumes.contract import Spec
from sampan.kubelet.volumes.plugins.files import FilesPlugin

NAME = "kubernetes.io/downward-api"


class DownwardApi(FilesPlugin):
    name = NAME

    def supports(self, spec: Spec) -> bool:
        return spec.volume.downwardAPI is not None

    async def payload(self, spec: Spec) -> tuple[Payload, float | None]:
        source = spec.volume.downwardAPI or DownwardAPIVolumeSource()
        allocatable = self.host.config.allocatable
        return payloads.of_pod(spec.pod, source.items, source.defaultMode, allocatable), None
