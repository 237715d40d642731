"""projected: files of several sources in one volume: config maps, secrets, the pod's own fields, tokens of its service
account, trust bundles.
"""

from __future__ import annotations

from sampan.api.types.core_v1 import Pod, ProjectedVolumeSource, VolumeProjection
from sampan.kubelet.volumes import payloads
from sampan.kubelet.volumes.atomic import File, Payload
from sampan.kubelet.volumes.contract import Spec, VolumeFault
from sampan.kubelet.volumes.plugins.config_map import config_map_files
from sampan.kubelet.volumes.plugins.files import FilesPlugin
from sampan.kubelet.volumes.plugins.secret import secret_files

NAME = "kubernetes.io/projected"
_OWNER_ONLY = 0o600
_BUNDLES_S = 60.0
"""How often trust bundles are looked at."""


class Projected(FilesPlugin):
    name = NAME

    def supports(self, spec: Spec) -> bool:
        return spec.volume.projected is not None

    async def payload(self, spec: Spec) -> tuple[Payload, float | None]:
        source = spec.volume.projected or ProjectedVolumeSource()
        mode = payloads.default_mode(source.defaultMode)
        files: dict[str, File] = {}
        faults: list[str] = []
        again: list[float] = []
        for part in source.sources or ():
            try:
                found, again_s = await self._part(spec, part, mode)
            except VolumeFault as fault:
                faults.append(fault.text)
                continue
            files |= found
            if again_s is not None:
                again.append(again_s)
        payloads.raise_together(faults)
        return files, min(again, default=None)

    async def _part(self, spec: Spec, part: VolumeProjection, mode: int) -> tuple[dict[str, File], float | None]:
        if part.secret is not None:
            wanted = part.secret
            optional = bool(wanted.optional)
            return await secret_files(self.host, spec, wanted.name, wanted.items, mode, optional=optional), None
        if part.configMap is not None:
            return await config_map_files(self.host, spec, part.configMap, mode), None
        if part.downwardAPI is not None:
            return payloads.of_pod(spec.pod, part.downwardAPI.items, mode, self.host.config.allocatable), None
        if part.serviceAccountToken is not None:
            return await self._token(spec, part, mode)
        if part.clusterTrustBundle is not None:
            content = await self.host.bundles.anchors(part.clusterTrustBundle)
            return {part.clusterTrustBundle.path: _owned(spec, content, mode)}, _BUNDLES_S
        if part.podCertificate is not None:
            raise VolumeFault("unimplemented")  # as of a real kubelet that is told nothing of its features
        return {}, None

    async def _token(self, spec: Spec, part: VolumeProjection, mode: int) -> tuple[dict[str, File], float | None]:
        wanted = part.serviceAccountToken
        assert wanted is not None
        audiences = [wanted.audience] if wanted.audience else []
        token = await self.host.tokens.get(spec.pod, audiences, wanted.expirationSeconds)
        again_s = max(token.renew_at - self.host.clock.now(), 1.0)
        return {wanted.path: _owned(spec, token.text.encode(), mode)}, again_s


def _owned(spec: Spec, content: bytes, mode: int) -> File:
    """Where one user or group is known to need it, nobody else may read it."""
    user = pod_user(spec.pod)
    is_closed = user is not None or spec.security.fsGroup is not None
    return File(content, _OWNER_ONLY if is_closed else mode, user)


def pod_user(pod: Pod) -> int | None:
    """The one that all its containers run as, if they all say so and agree. Pure."""
    whole = pod.spec.securityContext.runAsUser if pod.spec.securityContext is not None else None
    users = set()
    for container in (*pod.spec.initContainers, *(pod.spec.containers or ()), *pod.spec.ephemeralContainers):
        own = container.securityContext.runAsUser if container.securityContext is not None else None
        users.add(own if own is not None else whole)
    return users.pop() if len(users) == 1 else None


__all__ = ["NAME", "Projected", "pod_user"]
