"""projected volumes: config maps, secrets, downward API fields, service account tokens, trust bundles and certificates
in one volume.
"""

from __future__ import annotations

from sampan.api.semantics.pods import all_containers
from sampan.api.types.core_v1 import Pod, PodCertificateProjection, ProjectedVolumeSource, VolumeProjection
from sampan.kubelet.volumes.atomic import FileProjection, Payload
from sampan.kubelet.volumes.contract import VolumeOperationError, VolumeSpec
from sampan.kubelet.volumes.plugins.api_objects import (
    FileDefaults,
    FilesPlugin,
    config_map_files,
    default_mode,
    files_of_downward_api,
    raise_errors,
    secret_files,
)
from sampan.kubelet.volumes.plugins.pod_certificates import Credentials

NAME = "kubernetes.io/projected"
_OWNER_ONLY = 0o600


class ProjectedPlugin(FilesPlugin):
    name = NAME

    def supports(self, spec: VolumeSpec) -> bool:
        return spec.volume.projected is not None

    async def payload(self, spec: VolumeSpec) -> tuple[Payload, float | None]:
        source = spec.volume.projected or ProjectedVolumeSource()
        default_mode(source.defaultMode)
        defaults = self.defaults(source)
        files: dict[str, FileProjection] = {}
        errors: list[str] = []
        again: list[float] = []
        for index, part in enumerate(source.sources or ()):
            try:
                part_files, again_s = await self._part(spec, index, part, defaults)
            except VolumeOperationError as error:
                errors.append(error.text)
                continue
            files |= part_files
            if again_s is not None:
                again.append(again_s)
        raise_errors(errors)
        return files, min(again, default=None)

    async def _part(
        self, spec: VolumeSpec, index: int, part: VolumeProjection, defaults: FileDefaults
    ) -> tuple[dict[str, FileProjection], float | None]:
        if part.secret is not None:
            projection = part.secret
            optional = bool(projection.optional)
            files = await secret_files(self.host, spec, projection.name, projection.items, defaults, optional=optional)
            return files, None
        if part.configMap is not None:
            return await config_map_files(self.host, spec, part.configMap, defaults), None
        if part.downwardAPI is not None:
            return files_of_downward_api(spec.pod, part.downwardAPI.items, defaults, self.host.config.allocatable), None
        if part.serviceAccountToken is not None:
            return await self._token(spec, part, defaults)
        if part.clusterTrustBundle is not None:
            content = await self.host.trust_bundles.anchors(part.clusterTrustBundle)
            user = part.clusterTrustBundle.user
            return {part.clusterTrustBundle.path: _make_restricted_file(spec, content, defaults, user)}, None
        if part.podCertificate is not None:
            credentials = self.host.pod_certificates.credentials(spec.pod, spec.outer, index)
            contents = certificate_files(part.podCertificate, credentials)
            user = part.podCertificate.user
            files = {path: _make_restricted_file(spec, content, defaults, user) for path, content in contents.items()}
            return files, None
        return {}, None

    async def _token(
        self, spec: VolumeSpec, part: VolumeProjection, defaults: FileDefaults
    ) -> tuple[dict[str, FileProjection], float | None]:
        projection = part.serviceAccountToken
        assert projection is not None
        audiences = [projection.audience] if projection.audience else []
        token = await self.host.tokens.get(spec.pod, audiences, projection.expirationSeconds)
        again_s = max(token.renew_at - self.host.clock.now(), 1.0)
        content = token.text.encode()
        return {projection.path: _make_restricted_file(spec, content, defaults, projection.user)}, again_s


def certificate_files(projection: PodCertificateProjection, credentials: Credentials) -> dict[str, bytes]:
    """Return the files of a podCertificate source by path. Pure."""
    contents = (
        (projection.credentialBundlePath, credentials.key + credentials.chain),
        (projection.keyPath, credentials.key),
        (projection.certificateChainPath, credentials.chain),
    )
    return {path: content for path, content in contents if path}


def _make_restricted_file(
    spec: VolumeSpec, content: bytes, defaults: FileDefaults, own_user: int | None
) -> FileProjection:
    """Return a file with this content, owned by its own user, the user of the volume or the user that all containers
    run as. If there is one of these, or if the pod has an fsGroup, other users may not read the file.
    """
    user = defaults.user_of(own_user)
    if user is None:
        user = pod_user(spec.pod)
    is_closed = user is not None or spec.security.fsGroup is not None
    return FileProjection(content, _OWNER_ONLY if is_closed else default_mode(defaults.mode), user)


def pod_user(pod: Pod) -> int | None:
    """Return the user that all containers run as, or None if it is not specified or differs between
    containers. Pure.
    """
    whole = pod.spec.securityContext.runAsUser if pod.spec.securityContext is not None else None
    users = set()
    for container in all_containers(pod.spec):
        own = container.securityContext.runAsUser if container.securityContext is not None else None
        users.add(own if own is not None else whole)
    return users.pop() if len(users) == 1 else None
