"""Versions of kinds that the server knows but no longer serves."""

from typing import Final

from sampan.api.resources.resource import GroupVersionKind
from sampan.api.scheme import type_for

_ROLES = ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
_FLOWS = ("FlowSchema", "PriorityLevelConfiguration")
_VALIDATING = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")

RETIRED: Final[dict[str, tuple[str, ...]]] = {
    "admissionregistration.k8s.io/v1alpha1": _VALIDATING,
    "admissionregistration.k8s.io/v1beta1": (
        *("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"),
        *_VALIDATING,
    ),
    "apps/v1beta1": ("Deployment", "Scale", "StatefulSet", "ControllerRevision"),
    "apps/v1beta2": ("Deployment", "Scale", "StatefulSet", "DaemonSet", "ReplicaSet", "ControllerRevision"),
    "authentication.k8s.io/v1alpha1": ("SelfSubjectReview",),
    "authentication.k8s.io/v1beta1": ("SelfSubjectReview", "TokenReview"),
    "authorization.k8s.io/v1beta1": (
        *("SelfSubjectRulesReview", "SelfSubjectAccessReview", "SubjectAccessReview", "LocalSubjectAccessReview"),
    ),
    "batch/v1beta1": ("CronJob",),
    "certificates.k8s.io/v1beta1": ("CertificateSigningRequest",),
    "coordination.k8s.io/v1beta1": ("Lease",),
    "discovery.k8s.io/v1beta1": ("EndpointSlice",),
    "events.k8s.io/v1beta1": ("Event",),
    "extensions/v1beta1": ("Deployment", "Scale", "DaemonSet", "Ingress", "ReplicaSet", "NetworkPolicy"),
    "flowcontrol.apiserver.k8s.io/v1beta1": _FLOWS,
    "flowcontrol.apiserver.k8s.io/v1beta2": _FLOWS,
    "flowcontrol.apiserver.k8s.io/v1beta3": _FLOWS,
    "networking.k8s.io/v1beta1": ("Ingress", "IngressClass"),
    "node.k8s.io/v1alpha1": ("RuntimeClass",),
    "node.k8s.io/v1beta1": ("RuntimeClass",),
    "policy/v1beta1": ("PodDisruptionBudget", "Eviction"),
    "rbac.authorization.k8s.io/v1alpha1": _ROLES,
    "rbac.authorization.k8s.io/v1beta1": _ROLES,
    "scheduling.k8s.io/v1beta1": ("PriorityClass",),
    "storage.k8s.io/v1alpha1": ("VolumeAttachment", "CSIStorageCapacity", "VolumeAttributesClass"),
    "storage.k8s.io/v1beta1": ("StorageClass", "VolumeAttachment", "CSIDriver", "CSINode", "CSIStorageCapacity"),
}
_MOVED = {
    ("extensions", "apps"),
    ("extensions", "autoscaling"),
    ("extensions", "networking.k8s.io"),
    ("apps", "autoscaling"),
    ("events.k8s.io", ""),
    ("", "events.k8s.io"),
}
"""Pairs of groups between which kinds of the same name are the same kind."""


def is_known(kind: GroupVersionKind) -> bool:
    return type_for(kind) is not None or kind.kind in RETIRED.get(kind.api_version, ())


def is_same_kind(kind: GroupVersionKind, other: GroupVersionKind) -> bool:
    """Whether `kind` is a known version of the same kind as `other`."""
    if kind.kind != other.kind or not is_known(kind):
        return False
    return kind.group == other.group or (kind.group, other.group) in _MOVED
