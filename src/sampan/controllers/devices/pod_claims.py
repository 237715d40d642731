"""The resource claims that pods use, and those generated for them from templates. Pure."""

from collections.abc import Hashable, Iterable

from sampan.api.semantics.resource_claims import can_be_reserved, is_reserved_for
from sampan.api.types.core_v1 import Pod, PodResourceClaim
from sampan.api.types.meta_v1 import ObjectMeta, OwnerReference
from sampan.api.types.resource_v1 import ResourceClaim, ResourceClaimTemplate
from sampan.machinery.object_key import NamespacedName

ANNOTATION = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a generated claim: the entry of the pod's spec.resourceClaims that it is for."""
_MAX_PREFIX_LENGTH = 57
"""Maximum length of the generateName prefix; a dash and five characters follow it, within 63."""


def claim_name(pod: Pod, pod_claim: PodResourceClaim) -> str | None:
    """Return the name of the claim that the pod uses: empty if it is yet to be created, None if none is needed."""
    if pod_claim.resourceClaimName is not None:
        return pod_claim.resourceClaimName
    for status in pod.status.resourceClaimStatuses:
        if status.name == pod_claim.name:
            return status.resourceClaimName
    return ""


def claim_names(pod: Pod) -> list[str]:
    """Return the names of all existing claims of the pod, including the one for its extended resources."""
    names = [claim_name(pod, pod_claim) for pod_claim in pod.spec.resourceClaims]
    if pod.status.extendedResourceClaimStatus is not None:
        names.append(pod.status.extendedResourceClaimStatus.resourceClaimName)
    return [name for name in names if name]


def has_claims(pod: Pod) -> bool:
    return bool(pod.spec.resourceClaims) or pod.status.extendedResourceClaimStatus is not None


def by_claim(pod: Pod) -> Iterable[Hashable]:
    if not pod.spec.resourceClaims:
        return ()
    names = (claim_name(pod, pod_claim) for pod_claim in pod.spec.resourceClaims)
    return [NamespacedName(pod.metadata.namespace, name) for name in names if name]


def by_template(pod: Pod) -> Iterable[Hashable]:
    if not pod.spec.resourceClaims:
        return ()
    names = (pod_claim.resourceClaimTemplateName for pod_claim in pod.spec.resourceClaims)
    return [NamespacedName(pod.metadata.namespace, name) for name in names if name]


def is_done(pod: Pod) -> bool:
    """Whether the pod has terminated, or was deleted before it was scheduled."""
    is_deleted_early = pod.metadata.deletionTimestamp is not None and not pod.spec.nodeName
    return pod.status.phase in ("Succeeded", "Failed") or is_deleted_early


def needs_reservation(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether a pod that was bound without the scheduler lacks its reservation of an allocated claim."""
    return claim.status.allocation is not None and not is_reserved_for(claim, pod) and can_be_reserved(claim)


def claim_from(template: ResourceClaimTemplate, pod: Pod, pod_claim: PodResourceClaim) -> ResourceClaim:
    meta, template_meta = pod.metadata, template.spec.metadata
    owner = OwnerReference(apiVersion="v1", kind="Pod", name=meta.name, uid=meta.uid, controller=True)
    return ResourceClaim(
        metadata=ObjectMeta(
            generateName=base_name(meta.name, pod_claim.name),
            namespace=meta.namespace,
            ownerReferences=[owner],
            annotations={**template_meta.annotations, ANNOTATION: pod_claim.name},
            labels=template_meta.labels,
        ),
        spec=template.spec.spec,
    )


def base_name(pod: str, claim: str) -> str:
    """Return the generateName prefix; if too long, both names are shortened in proportion."""
    full = f"{pod}-{claim}-"
    if len(full) <= _MAX_PREFIX_LENGTH:
        return full
    return f"{_shorten(pod, len(full))}-{_shorten(claim, len(full))}"


def _shorten(name: str, total: int) -> str:
    return name[: len(name) * _MAX_PREFIX_LENGTH // total]
