"""The audiences of service account tokens that a node may request: those of the pod's volumes, and those it is
authorized for."""

from __future__ import annotations

from sampan.api.go_compat import gotext
from sampan.api.types.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod, Volume
from sampan.api.types.storage_v1 import CSIDriver
from sampan.apiserver.admission import lookup
from sampan.apiserver.admission.authorization import is_allowed
from sampan.apiserver.admission.contract import AdmissionAttributes
from sampan.apiserver.authz.authorizer import Attributes as AuthzAttributes
from sampan.machinery import errors

_VERB = "request-serviceaccounts-token-audience"


async def obstacle(attributes: AdmissionAttributes, pod: Pod, audiences: list[str]) -> str:
    """Return why the node may not request a token for these audiences; "" if it may."""
    if len(audiences) > 1:
        return "node may only request 0 or 1 audiences"
    audience = audiences[0] if audiences else ""
    quoted_audience, user = gotext.quote(audience), attributes.user
    try:
        if await _asks_for(attributes, pod, audience):
            return ""
    except errors.NotFound as error:
        return f"error validating audience {quoted_audience}: {error.message}"
    request = AuthzAttributes(user, _VERB, "", "", "v1", audience, namespace=attributes.namespace, name=attributes.name)
    if await is_allowed(attributes, request):
        return ""
    refusal = f"{user.name} is not authorized to request tokens for this audience"
    return f"audience {quoted_audience} not found in pod spec volume, {refusal}"


async def _asks_for(attributes: AdmissionAttributes, pod: Pod, audience: str) -> bool:
    lost: errors.NotFound | None = None
    for volume in pod.spec.volumes:
        if volume.projected is not None and any(
            source.serviceAccountToken is not None and source.serviceAccountToken.audience == audience
            for source in volume.projected.sources or ()
        ):
            return True
        try:
            driver = await _driver(attributes, pod, volume)
            if driver is not None and any(
                token_request.audience == audience for token_request in driver.spec.tokenRequests
            ):
                return True
        except errors.NotFound as error:
            lost = error
    if lost is not None:
        raise lost
    return False


async def _driver(attributes: AdmissionAttributes, pod: Pod, volume: Volume) -> CSIDriver | None:
    """Return the CSI driver of a volume, which is inline or that of a claim; None if it has none."""
    if volume.csi is not None:
        name = volume.csi.driver
    else:
        claim = _claim(pod, volume)
        name = await _driver_of_claim(attributes, pod.metadata.namespace, claim) if claim else ""
    if not name:
        return None
    store = attributes.registry.open_store_of("storage.k8s.io", "v1", "CSIDriver")
    driver: CSIDriver | None = await lookup.find(store, "", name)
    if driver is None:
        raise errors.not_found("csidrivers", name, group="storage.k8s.io")
    return driver


def _claim(pod: Pod, volume: Volume) -> str:
    if volume.ephemeral is not None and volume.ephemeral.volumeClaimTemplate is not None:
        return f"{pod.metadata.name}-{volume.name}"
    return volume.persistentVolumeClaim.claimName if volume.persistentVolumeClaim is not None else ""


async def _driver_of_claim(attributes: AdmissionAttributes, namespace: str, name: str) -> str:
    registry = attributes.registry
    claim: PersistentVolumeClaim | None = await lookup.find(
        registry.open_store_of("", "v1", "PersistentVolumeClaim"), namespace, name
    )
    if claim is None:
        raise errors.not_found("persistentvolumeclaims", name)
    volume: PersistentVolume | None = await lookup.find(
        registry.open_store_of("", "v1", "PersistentVolume"), "", claim.spec.volumeName
    )
    if volume is None:
        raise errors.not_found("persistentvolumes", claim.spec.volumeName)
    return volume.spec.csi.driver if volume.spec.csi is not None else ""
