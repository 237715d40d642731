"""The identity of a StatefulSet's pod: ordinal, name, labels and volumes."""

import re

from sampan.api.semantics.workloads import desired_replicas
from sampan.api.types.apps_v1 import StatefulSet
from sampan.api.types.core_v1 import (
    PersistentVolumeClaim,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodTemplateSpec,
    Volume,
)
from sampan.controllers.ownership.pods import name_prefix, pod_from
from sampan.machinery.copies import copy_of

POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL = "apps.kubernetes.io/pod-index"
REVISION_LABEL = "controller-revision-hash"

_MAX_INT32 = 2**31 - 1
_parts = re.compile(r"(.*)-([0-9]+)", re.DOTALL).fullmatch


def parent_and_ordinal(pod_name: str) -> tuple[str, int]:
    """Return the set's name and the ordinal from the name of a pod; the ordinal is -1 if there is none."""
    match = _parts(pod_name)
    if match is None:
        return "", -1
    ordinal = int(match[2])
    return match[1], ordinal if ordinal <= _MAX_INT32 else -1


def ordinal_of(pod: Pod) -> int:
    return parent_and_ordinal(pod.metadata.name)[1]


def ordinals(sset: StatefulSet) -> range:
    """Return the ordinals that the set should have."""
    start = sset.spec.ordinals.start if sset.spec.ordinals is not None else 0
    return range(start, start + desired_replicas(sset))


def is_member(sset: StatefulSet, pod: Pod) -> bool:
    return parent_and_ordinal(pod.metadata.name)[0] == sset.metadata.name


def revision_of(pod: Pod) -> str:
    return pod.metadata.labels.get(REVISION_LABEL, "")


def pod_name(sset: StatefulSet, ordinal: int) -> str:
    return f"{sset.metadata.name}-{ordinal}"


def claim_name(sset: StatefulSet, template: PersistentVolumeClaim, ordinal: int) -> str:
    return f"{template.metadata.name}-{sset.metadata.name}-{ordinal}"


def has_identity(sset: StatefulSet, pod: Pod) -> bool:
    meta = pod.metadata
    parent, ordinal = parent_and_ordinal(meta.name)
    return (
        ordinal >= 0
        and parent == sset.metadata.name
        and meta.name == pod_name(sset, ordinal)
        and meta.namespace == sset.metadata.namespace
        and meta.labels.get(POD_NAME_LABEL) == meta.name
    )


def has_storage(sset: StatefulSet, pod: Pod) -> bool:
    """Whether the pod mounts all claims of its own ordinal."""
    ordinal = ordinal_of(pod)
    if ordinal < 0:
        return False
    used = {volume.name: volume.persistentVolumeClaim for volume in pod.spec.volumes}
    for template in sset.spec.volumeClaimTemplates:
        source = used.get(template.metadata.name)
        if source is None or source.claimName != claim_name(sset, template, ordinal):
            return False
    return True


def new_pod(sset: StatefulSet, template: PodTemplateSpec, revision: str, ordinal: int) -> Pod:
    """Return the pod to create for the ordinal."""
    pod = pod_from(template, sset, name=pod_name(sset, ordinal), spec=copy_of(template.spec))
    pod.metadata.generateName = name_prefix(sset.metadata.name)
    _set_identity_labels(pod, ordinal)
    pod.metadata.labels[REVISION_LABEL] = revision
    pod.spec.hostname, pod.spec.subdomain = pod.metadata.name, sset.spec.serviceName
    _use_claims(sset, pod, ordinal)
    return pod


def correct_pod(sset: StatefulSet, pod: Pod) -> Pod:
    """Return a copy of the pod with the identity and storage that it should have."""
    fixed, ordinal = copy_of(pod), ordinal_of(pod)
    _set_identity_labels(fixed, ordinal)
    if not has_storage(sset, pod):
        _use_claims(sset, fixed, ordinal)
    return fixed


def _set_identity_labels(pod: Pod, ordinal: int) -> None:
    pod.metadata.labels[POD_NAME_LABEL] = pod.metadata.name
    pod.metadata.labels[INDEX_LABEL] = str(ordinal)


def _use_claims(sset: StatefulSet, pod: Pod, ordinal: int) -> None:
    """Add the claims to the pod's volumes; they replace volumes of the template with the same names."""
    claims = [
        Volume(
            name=template.metadata.name,
            persistentVolumeClaim=PersistentVolumeClaimVolumeSource(claimName=claim_name(sset, template, ordinal)),
        )
        for template in sset.spec.volumeClaimTemplates
    ]
    names = {volume.name for volume in claims}
    pod.spec.volumes = claims + [volume for volume in pod.spec.volumes if volume.name not in names]
