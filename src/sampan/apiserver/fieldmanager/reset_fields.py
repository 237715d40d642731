"""The fields that each path resets after a write, so that no manager owns them through it: the status on the main path,
the spec on the status path, and the exceptions in the table."""

from sampan.api.resource import Resource
from sampan.machinery.apply import Everything, Except, Filter, Only

_CERTIFICATES = "certificates.k8s.io"

_PATHS: dict[tuple[str, str, str], Filter] = {
    ("", "pods", "status"): Except("spec", "metadata.deletionTimestamp", "metadata.ownerReferences"),
    ("", "pods", "ephemeralcontainers"): Only("spec.ephemeralContainers"),
    ("", "pods", "resize"): Only(
        "spec.containers.*.resources",
        "spec.containers.*.resizePolicy",
        "spec.initContainers.*.resources",
        "spec.initContainers.*.resizePolicy",
    ),
    ("", "namespaces", "finalize"): Except("status"),
    ("apps", "deployments", "status"): Except("spec", "metadata.labels"),
    (_CERTIFICATES, "certificatesigningrequests", ""): Except("spec", "status"),
    (_CERTIFICATES, "certificatesigningrequests", "status"): Except("spec", "status.conditions"),
    (_CERTIFICATES, "certificatesigningrequests", "approval"): Except("spec", "status.certificate"),
    (_CERTIFICATES, "podcertificaterequests", ""): Everything(),
}
"""The filters of paths with rules of their own, by group, plural and subresource."""

_KEEP_METADATA = frozenset(
    {
        ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("apiregistration.k8s.io", "apiservices"),
        ("flowcontrol.apiserver.k8s.io", "flowschemas"),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
        ("internal.apiserver.k8s.io", "storageversions"),
        ("networking.k8s.io", "servicecidrs"),
        ("resource.k8s.io", "devicetaintrules"),
        ("resource.k8s.io", "resourceclaims"),
        ("resource.k8s.io", "resourcepoolstatusrequests"),
        ("scheduling.k8s.io", "podgroups"),
        ("storage.k8s.io", "volumeattachments"),
        ("storagemigration.k8s.io", "storageversionmigrations"),
    }
)
"""Kinds whose status path resets the metadata; that of custom resources does too."""

_STATUS, _SPEC, _ALL_BUT_STATUS = Except("status"), Except("spec"), Except("metadata", "spec")
_NOTHING = Everything()


def reset_filter(resource: Resource, subresource: str) -> Filter:
    path_filter = _PATHS.get((resource.group, resource.plural, subresource))
    if path_filter is not None:
        return path_filter
    if subresource == "status":
        keeps = resource.is_custom or (resource.group, resource.plural) in _KEEP_METADATA
        return _ALL_BUT_STATUS if keeps else _SPEC
    if subresource:
        return _NOTHING
    return _STATUS if resource.subresource("status") is not None else _NOTHING
