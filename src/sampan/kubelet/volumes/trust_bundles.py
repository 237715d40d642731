"""Trust anchors from ClusterTrustBundles as PEM without duplicates."""

from __future__ import annotations

from collections.abc import Iterable

from sampan.api.label_selector import selector_of
from sampan.api.types.certificates_v1beta1 import ClusterTrustBundle
from sampan.api.types.core_v1 import ClusterTrustBundleProjection
from sampan.kubelet.volumes.contract import VolumeFault
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed, Selection
from sampan.machinery.pem import read_blocks


class TrustBundles:
    def __init__(self, *, client: Client) -> None:
        self._bundles = client.of(ClusterTrustBundle)

    async def anchors(self, wanted: ClusterTrustBundleProjection) -> bytes:
        try:
            bundles = await self._found(wanted)
        except (errors.ApiError, ConnectionFailed) as error:
            raise VolumeFault(f"while getting ClusterTrustBundle: {error}") from error
        return joined(bundle.spec.trustBundle for bundle in bundles)

    async def _found(self, wanted: ClusterTrustBundleProjection) -> list[ClusterTrustBundle]:
        if wanted.name is not None:
            try:
                return [await self._bundles.get(wanted.name)]
            except errors.NotFound:
                if wanted.optional:
                    return []
                raise
        if wanted.signerName is None:
            raise VolumeFault("ClusterTrustBundle projection requires either name or signerName to be set")
        selector = selector_of(wanted.labelSelector)
        page = await self._bundles.list(Selection(fields=f"spec.signerName={wanted.signerName}"))
        bundles = [bundle for bundle in page.items if selector.matches(bundle.metadata.labels)]
        if not bundles and not wanted.optional:
            raise VolumeFault("combination of signerName and labelSelector matched zero ClusterTrustBundles")
        return bundles


def joined(bundles: Iterable[str]) -> bytes:
    """Return each certificate of the bundles once."""
    return b"".join(sorted({block.encode() for text in bundles for block in read_blocks(text.encode())}))
