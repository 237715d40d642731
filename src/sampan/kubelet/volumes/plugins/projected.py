"""projected volumes: config maps, secrets, downward API fields, service account tokens and trust bundles in one
volume.
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
"""Interval at which trust bundles are updated."""


class Projected(FilesPlugin):
    name = NAME

    def supports(self, spec: Spec) -> bool:
        return spec.volume.projected is not None

    async def payload(self, spec: Spec) -> tuple[Payload, float | None]:
        source = spec.volume.projected or ProjectedVolumeSource()
        mode = payloads.default_mode(source.defaultMode)
        files: dict[str, File] = {}
        errors: list[str] = []
        again: list[float] = []
        for part in source.sources or ():
            try:
                part_files, again_s = await self._part(spec, part, mode)
            except VolumeFault as error:
                errors.append(error.text)
                continue
            files |= part_files
            if again_s is not None:
                again.append(again_s)
        payloads.raise_together(errors)
        return files, min(again, default=None)

    async def _part(self, spec: Spec, part: VolumeProjection, mode: int) -> tuple[dict[str, File], float | None]:
        if part.secret is not None:
            projection = part.secret
            optional = bool(projection.optional)
            return await secret_files(self.host, spec, projection.name, projection.items, mode, optional=optional), None
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
            raise VolumeFault("unimplemented")  # As in a Kubernetes kubelet with default feature gates.
        return {}, None

    async def _token(self, spec: Spec, part: VolumeProjection, mode: int) -> tuple[dict[str, File], float | None]:
        projection = part.serviceAccountToken
        assert projection is not None
        audiences = [projection.audience] if projection.audience else []
        token = await self.host.tokens.get(spec.pod, audiences, projection.expirationSeconds)
        again_s = max(token.renew_at - self.host.clock.now(), 1.0)
        return {projection.path: _owned(spec, token.text.encode(), mode)}, again_s


def _owned(spec: Spec, content: bytes, mode: int) -> File:
    """Return the file. If a single user or fsGroup is known to need it, no other may read it."""
    user = pod_user(spec.pod)
    is_closed = user is not None or spec.security.fsGroup is not None
    return File(content, _OWNER_ONLY if is_closed else mode, user)


def pod_user(pod: Pod) -> int | None:
    """Return the user that all containers run as, or None if that is not specified or differs. Pure."""
    whole = pod.spec.securityContext.runAsUser if pod.spec.securityContext is not None else None
    users = set()
    for container in (*pod.spec.initContainers, *(pod.spec.containers or ()), *pod.spec.ephemeralContainers):
        own = container.securityContext.runAsUser if container.securityContext is not None else None
        users.add(own if own is not None else whole)
    return users.pop() if len(users) == 1 else None
