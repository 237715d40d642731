"""kube-apiserver-serving-clustertrustbundle-publisher-controller, which keeps the CA bundle of the API server in one
ClusterTrustBundle (`pkg/controller/certificates/clustertrustbundlepublisher`)."""

import hashlib
import logging
from collections.abc import Hashable, Iterable
from typing import Any

from sampan.api.types import certificates_v1, certificates_v1beta1
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.controllers.descriptor import ControllerContext
from sampan.controllers.fan_out import try_each
from sampan.machinery import errors
from sampan.machinery.client import Client, Selection, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.copies import copy_of
from sampan.machinery.informer import InformerFactory

log = logging.getLogger(__name__)

SIGNER = "kubernetes.io/kube-apiserver-serving"
_KEY = "bundle"
"""The only key: there is one bundle."""
_HASH_BYTES = 12
_CERTIFICATE = "-----BEGIN CERTIFICATE-----"
_OF_SIGNER = Selection(fields=f"spec.signerName={SIGNER}")

AnyTrustBundle = certificates_v1.ClusterTrustBundle | certificates_v1beta1.ClusterTrustBundle


def bundle_name(signer: str, bundle: str) -> str:
    """Return the name of the object, which depends on its content."""
    return f"{signer.replace('/', ':')}:{hashlib.sha256(bundle.encode()).digest()[:_HASH_BYTES].hex()}"


def _only_key(bundle: Any) -> Iterable[Hashable]:
    return (_KEY,)


class TrustBundlePublisherController:
    name = "kube-apiserver-serving-clustertrustbundle-publisher-controller"
    initial_keys = (_KEY,)

    def __init__(self, *, client: Client, informers: InformerFactory, bundle: str, kind: type[AnyTrustBundle]) -> None:
        self._bundle, self._name, self._kind = bundle, bundle_name(SIGNER, bundle), kind
        self._bundles, self._known = client.for_kind(kind), informers.for_kind(kind, _OF_SIGNER).lister
        self.watches = (Watch(resource_of(kind), _only_key, _OF_SIGNER),)

    async def reconcile(self, key: str) -> None:
        present = self._known.get(self._name)
        if present is None:
            await self._create()
        elif present.spec.trustBundle != self._bundle:
            changed = copy_of(present)
            changed.spec.trustBundle = self._bundle
            await self._bundles.update(changed)
        outdated = [bundle for bundle in self._known if bundle.metadata.name != self._name]
        for bundle, error in await try_each(outdated, self._delete):
            log.warning("%s: cannot delete the ClusterTrustBundle %s: %s", self.name, bundle.metadata.name, error)
            raise error

    async def _create(self) -> None:
        bundle = self._kind(metadata=ObjectMeta(name=self._name))
        bundle.spec.signerName, bundle.spec.trustBundle = SIGNER, self._bundle
        try:
            await self._bundles.create(bundle)
        except errors.AlreadyExists:
            return  # The watch event triggers another sync.

    async def _delete(self, bundle: AnyTrustBundle) -> None:
        try:
            await self._bundles.delete(bundle.metadata.name)
        except errors.NotFound:
            return


def make(context: ControllerContext) -> TrustBundlePublisherController | None:
    config = context.config
    if _CERTIFICATE not in config.root_ca:
        return None
    version = certificates_v1 if config.feature_gates.level >= 37 else certificates_v1beta1
    return context.build(TrustBundlePublisherController, bundle=config.root_ca, kind=version.ClusterTrustBundle)
