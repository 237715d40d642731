"""secret volumes: the keys of a secret as files on tmpfs."""

from __future__ import annotations

from collections.abc import Sequence

from sampan.api.types.core_v1 import KeyToPath, Secret, SecretVolumeSource
from sampan.kubelet.objects import NotSynced
from sampan.kubelet.volumes import payloads
from sampan.kubelet.volumes.atomic import File, Payload
from sampan.kubelet.volumes.contract import Spec, VolumeFault
from sampan.kubelet.volumes.host import Host
from sampan.kubelet.volumes.plugins.files import FilesPlugin

NAME = "kubernetes.io/secret"


class Secrets(FilesPlugin):
    name = NAME

    def supports(self, spec: Spec) -> bool:
        return spec.volume.secret is not None

    async def payload(self, spec: Spec) -> tuple[Payload, float | None]:
        source = spec.volume.secret or SecretVolumeSource()
        files = await secret_files(
            self.host, spec, source.secretName, source.items, source.defaultMode, optional=bool(source.optional)
        )
        return files, None


async def secret_files(
    host: Host, spec: Spec, name: str, items: Sequence[KeyToPath], mode: int | None, *, optional: bool
) -> dict[str, File]:
    try:
        secret = await host.objects.secret(spec.pod.metadata.namespace, name)
    except NotSynced as error:
        raise VolumeFault(str(error)) from None
    if secret is None and not optional:
        raise VolumeFault(f'secret "{name}" not found')
    return payloads.of_secret(secret or Secret(), items, mode, optional=optional)
