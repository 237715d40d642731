"""projected volumes: config maps, secrets, downward API fields, service account tokens and trust bundles in one
volume.
"""

from __future__ import annotations

from collections.abc import Iterable

from sampan.api.selectors.label_selector import selector_of
from sampan.api.semantics.pods import all_containers
from sampan.api.types.certificates_v1beta1 import ClusterTrustBundle
from sampan.api.types.core_v1 import ClusterTrustBundleProjection, Pod, ProjectedVolumeSource, VolumeProjection
from sampan.kubelet.volumes.atomic import FileProjection, Payload
from sampan.kubelet.volumes.contract import VolumeOperationError, VolumeSpec
from sampan.kubelet.volumes.plugins.api_objects import (
    FilesPlugin,
    config_map_files,
    default_mode,
    files_of_downward_api,
    raise_errors,
    secret_files,
)
from sampan.kubelet.volumes.volume_host import VolumeHost
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed, Selection
from sampan.machinery.pki.pem import read_blocks

NAME = "kubernetes.io/projected"
_OWNER_ONLY = 0o600
_BUNDLES_S = 60.0
"""Interval at which trust bundles are updated."""


class ProjectedPlugin(FilesPlugin):
    name = NAME

    def __init__(self, host: VolumeHost) -> None:
        super().__init__(host)
        self._trust_bundles = TrustBundles(client=host.client)

    def supports(self, spec: VolumeSpec) -> bool:
        return spec.volume.projected is not None

    async def payload(self, spec: VolumeSpec) -> tuple[Payload, float | None]:
        source = spec.volume.projected or ProjectedVolumeSource()
        mode = default_mode(source.defaultMode)
        files: dict[str, FileProjection] = {}
        errors: list[str] = []
        again: list[float] = []
        for part in source.sources or ():
            try:
                part_files, again_s = await self._part(spec, part, mode)
            except VolumeOperationError as error:
                errors.append(error.text)
                continue
            files |= part_files
            if again_s is not None:
                again.append(again_s)
        raise_errors(errors)
        return files, min(again, default=None)

    async def _part(
        self, spec: VolumeSpec, part: VolumeProjection, mode: int
    ) -> tuple[dict[str, FileProjection], float | None]:
        if part.secret is not None:
            projection = part.secret
            optional = bool(projection.optional)
            return await secret_files(self.host, spec, projection.name, projection.items, mode, optional=optional), None
        if part.configMap is not None:
            return await config_map_files(self.host, spec, part.configMap, mode), None
        if part.downwardAPI is not None:
            return files_of_downward_api(spec.pod, part.downwardAPI.items, mode, self.host.config.allocatable), None
        if part.serviceAccountToken is not None:
            return await self._token(spec, part, mode)
        if part.clusterTrustBundle is not None:
            content = await self._trust_bundles.anchors(part.clusterTrustBundle)
            return {part.clusterTrustBundle.path: _make_restricted_file(spec, content, mode)}, _BUNDLES_S
        if part.podCertificate is not None:
            raise VolumeOperationError("unimplemented")  # Kubernetes has podCertificate disabled by default too.
        return {}, None

    async def _token(
        self, spec: VolumeSpec, part: VolumeProjection, mode: int
    ) -> tuple[dict[str, FileProjection], float | None]:
        projection = part.serviceAccountToken
        assert projection is not None
        audiences = [projection.audience] if projection.audience else []
        token = await self.host.tokens.get(spec.pod, audiences, projection.expirationSeconds)
        again_s = max(token.renew_at - self.host.clock.now(), 1.0)
        return {projection.path: _make_restricted_file(spec, token.text.encode(), mode)}, again_s


def _make_restricted_file(spec: VolumeSpec, content: bytes, mode: int) -> FileProjection:
    """Return a file with this content. If all containers run as one user, or if the pod has an fsGroup, other users may
    not read the file.
    """
    user = pod_user(spec.pod)
    is_closed = user is not None or spec.security.fsGroup is not None
    return FileProjection(content, _OWNER_ONLY if is_closed else mode, user)


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


class TrustBundles:
    """Provides the trust anchors of ClusterTrustBundles as PEM without duplicates
    (`pkg/kubelet/clustertrustbundle`).
    """

    def __init__(self, *, client: Client) -> None:
        self._bundles = client.for_kind(ClusterTrustBundle)

    async def anchors(self, projection: ClusterTrustBundleProjection) -> bytes:
        try:
            bundles = await self._find_bundles(projection)
        except (errors.ApiError, ConnectionFailed) as error:
            raise VolumeOperationError(f"while getting ClusterTrustBundle: {error}") from error
        return merge_certificates(bundle.spec.trustBundle for bundle in bundles)

    async def _find_bundles(self, projection: ClusterTrustBundleProjection) -> list[ClusterTrustBundle]:
        if projection.name is not None:
            try:
                return [await self._bundles.get(projection.name)]
            except errors.NotFound:
                if projection.optional:
                    return []
                raise
        if projection.signerName is None:
            raise VolumeOperationError("ClusterTrustBundle projection requires either name or signerName to be set")
        selector = selector_of(projection.labelSelector)
        page = await self._bundles.list(Selection(fields=f"spec.signerName={projection.signerName}"))
        bundles = [bundle for bundle in page.items if selector.matches(bundle.metadata.labels)]
        if not bundles and not projection.optional:
            raise VolumeOperationError("combination of signerName and labelSelector matched zero ClusterTrustBundles")
        return bundles


def merge_certificates(bundles: Iterable[str]) -> bytes:
    """Return each certificate of the bundles once."""
    return b"".join(sorted({block.encode() for text in bundles for block in read_blocks(text.encode())}))
