"""Trust anchors of ClusterTrustBundles for projected volumes (`pkg/kubelet/clustertrustbundle`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from sampan.api.selectors.label_selector import selector_of
from sampan.api.selectors.labels import SelectorError
from sampan.api.types import certificates_v1, certificates_v1alpha1, certificates_v1beta1
from sampan.api.types.core_v1 import ClusterTrustBundleProjection
from sampan.host.bounded_cache import BoundedCache
from sampan.kubelet.volumes.contract import VolumeOperationError
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed, resource_of
from sampan.machinery.client.discovery import Discovery
from sampan.machinery.informer import Informer, InformerFactory
from sampan.machinery.pki.pem import CERTIFICATE, PemBlock, read_blocks

_Bundle: TypeAlias = (
    certificates_v1.ClusterTrustBundle
    | certificates_v1beta1.ClusterTrustBundle
    | certificates_v1alpha1.ClusterTrustBundle
)
_VERSIONS: Final[Sequence[type[_Bundle]]] = (
    certificates_v1.ClusterTrustBundle,
    certificates_v1beta1.ClusterTrustBundle,
    certificates_v1alpha1.ClusterTrustBundle,
)
_SYNC_TIMEOUT_S = 10.0
"""Time to wait for the bundles when they are needed for the first time, measured by the event loop's clock."""
_UNSUPPORTED = "ClusterTrustBundle projection is not supported in static kubelet mode"
_MAX_SELECTOR_LENGTH = 100 * 1024


class TrustAnchors(Protocol):
    async def anchors(self, projection: ClusterTrustBundleProjection) -> bytes:
        """Return the trust anchors of a projection as PEM. Raise VolumeOperationError if there are none."""


class NoTrustBundles:
    """Takes the place of TrustBundles if the feature is disabled."""

    async def anchors(self, projection: ClusterTrustBundleProjection) -> bytes:
        raise VolumeOperationError(_UNSUPPORTED)


class _AnchorKey(NamedTuple):
    name: str
    signer: str
    selector: str


class TrustBundles:
    """Watches all ClusterTrustBundles from the first use on, in the best version that the API server serves.
    `on_change` is called when a bundle changes."""

    def __init__(self, *, client: Client, informers: InformerFactory, on_change: Callable[[], None]) -> None:
        self._client, self._informers, self._on_change = client, informers, on_change
        self._informer: Informer[_Bundle] | None = None
        self._anchors: BoundedCache[_AnchorKey, bytes] = BoundedCache(max_entries=500, max_entry_bytes=1 << 20)

    async def anchors(self, projection: ClusterTrustBundleProjection) -> bytes:
        if projection.name is None and projection.signerName is None:
            raise VolumeOperationError("ClusterTrustBundle projection requires either name or signerName to be set")
        informer = await self._open()
        key = _AnchorKey(projection.name or "", projection.signerName or "", repr(projection.labelSelector))
        if len(key.selector) > _MAX_SELECTOR_LENGTH:
            text = f"label selector length ({len(key.selector)}) is larger than {_MAX_SELECTOR_LENGTH}"
            raise VolumeOperationError(text)
        if (anchors := self._anchors.get(key)) is not None:
            return anchors
        bundles = _select_bundles(informer, projection)
        if not bundles:
            return b""
        anchors = merge_certificates(bundle.spec.trustBundle for bundle in bundles)
        self._anchors.keep(key, anchors)
        return anchors

    async def _open(self) -> Informer[_Bundle]:
        if self._informer is None:
            try:
                kind = await Discovery(self._client).select_served(_VERSIONS)
            except (errors.ApiError, ConnectionFailed) as error:
                text = f"failed to determine which informer manager to choose: {error}"
                raise VolumeOperationError(
                    f"failed to ensure informer manager for ClusterTrustBundles: {text}"
                ) from error
            if kind is None:
                raise VolumeOperationError(_UNSUPPORTED)
            if self._informer is None:
                self._informer = self._informers.informer(resource_of(kind))
                self._informer.subscribe(self._on_bundle)
        try:
            async with asyncio.timeout(_SYNC_TIMEOUT_S):
                await self._informer.synced.wait()
        except TimeoutError:
            raise VolumeOperationError("ClusterTrustBundle informer has not yet synced") from None
        return self._informer

    def _on_bundle(self, old: _Bundle | None, new: _Bundle | None) -> None:
        self._anchors.clear()
        self._on_change()


def _select_bundles(informer: Informer[_Bundle], projection: ClusterTrustBundleProjection) -> list[_Bundle]:
    if projection.name is not None:
        bundle = informer.lister.get(projection.name)
        if bundle is None and not projection.optional:
            name = f'clustertrustbundle.certificates.k8s.io "{projection.name}" not found'
            raise VolumeOperationError(f"while getting ClusterTrustBundle: {name}")
        return [bundle] if bundle is not None else []
    try:
        selector = selector_of(projection.labelSelector)
    except SelectorError as error:
        raise VolumeOperationError(f"while parsing label selector: {error}") from None
    bundles = [
        bundle
        for bundle in informer.lister
        if bundle.spec.signerName == projection.signerName and selector.matches(bundle.metadata.labels)
    ]
    if not bundles and not projection.optional:
        raise VolumeOperationError("combination of signerName and labelSelector matched zero ClusterTrustBundles")
    return bundles


def merge_certificates(bundles: Iterable[str]) -> bytes:
    """Return each certificate of the bundles once."""
    contents = {block.content for text in bundles for block in read_blocks(text.encode())}
    return b"".join(PemBlock(CERTIFICATE, content).encode() for content in sorted(contents))
