"""configMap volumes: the keys of a config map as files."""

from __future__ import annotations

from sampan.api.types.core_v1 import ConfigMap, ConfigMapProjection, ConfigMapVolumeSource
from sampan.kubelet.objects import NotSynced
from sampan.kubelet.volumes import payloads
from sampan.kubelet.volumes.atomic import File, Payload
from sampan.kubelet.volumes.contract import Spec, VolumeFault
from sampan.kubelet.volumes.host import Host
from sampan.kubelet.volumes.plugins.empty_dir import DISK
from sampan.kubelet.volumes.plugins.files import FilesPlugin

NAME = "kubernetes.io/configmap"


class ConfigMaps(FilesPlugin):
    name = NAME
    medium = DISK

    def supports(self, spec: Spec) -> bool:
        return spec.volume.configMap is not None

    async def payload(self, spec: Spec) -> tuple[Payload, float | None]:
        source = spec.volume.configMap or ConfigMapVolumeSource()
        return await config_map_files(self.host, spec, source, source.defaultMode), None


async def config_map_files(
    host: Host, spec: Spec, source: ConfigMapVolumeSource | ConfigMapProjection, mode: int | None
) -> dict[str, File]:
    optional = bool(source.optional)
    try:
        config_map = await host.objects.config_map(spec.pod.metadata.namespace, source.name)
    except NotSynced as error:
        raise VolumeFault(str(error)) from None
    if config_map is None and not optional:
        raise VolumeFault(f'configmap "{source.name}" not found')
    return payloads.of_config_map(config_map or ConfigMap(), source.items, mode, optional=optional)
