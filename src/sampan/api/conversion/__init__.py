"""Conversion between the versions of a kind. Pure: values in, new values out.

There is one file per group whose versions differ; for versions of the same shape only the apiVersion changes.
Defaulting and validation do not belong here, but to the API server. The Kubernetes counterparts are the `conversion.go`
files in `pkg/apis`.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from sampan.api.codec import json
from sampan.api.conversion import autoscaling, certificates, devices, events, extensions
from sampan.api.resources.resource import GroupVersionKind
from sampan.api.types.base import Object

T = TypeVar("T", bound=Object)
Change = Callable[[dict[str, Any]], dict[str, Any]]

SAME_SHAPE = {
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): ("v1", "v1beta1", "v1alpha1"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"): ("v1", "v1beta1", "v1alpha1"),
    ("certificates.k8s.io", "ClusterTrustBundle"): ("v1", "v1beta1", "v1alpha1"),
    ("coordination.k8s.io", "LeaseCandidate"): ("v1beta1", "v1alpha2"),
    ("networking.k8s.io", "IPAddress"): ("v1", "v1beta1"),
    ("networking.k8s.io", "ServiceCIDR"): ("v1", "v1beta1"),
    ("resource.k8s.io", "DeviceClass"): ("v1", "v1beta2", "v1beta1"),
    ("resource.k8s.io", "DeviceTaintRule"): ("v1", "v1beta2", "v1alpha3"),
    ("resource.k8s.io", "ResourceClaim"): ("v1", "v1beta2"),
    ("resource.k8s.io", "ResourceClaimTemplate"): ("v1", "v1beta2"),
    ("resource.k8s.io", "ResourceSlice"): ("v1", "v1beta2"),
    ("scheduling.k8s.io", "PodGroup"): ("v1beta1", "v1alpha3"),
    ("scheduling.k8s.io", "Workload"): ("v1beta1", "v1alpha3"),
    ("storage.k8s.io", "VolumeAttributesClass"): ("v1", "v1beta1"),
    ("storagemigration.k8s.io", "StorageVersionMigration"): ("v1", "v1beta1"),
}
"""Kinds whose versions have the same fields, the newest first."""

_CHANGES: dict[tuple[str, str, str], tuple[Change, Change]] = {
    ("apiextensions.k8s.io/v1beta1", "apiextensions.k8s.io/v1", "CustomResourceDefinition"): (
        extensions.to_v1,
        extensions.to_v1beta1,
    ),
    ("autoscaling/v1", "autoscaling/v2", "HorizontalPodAutoscaler"): (autoscaling.v1_to_v2, autoscaling.v2_to_v1),
    ("certificates.k8s.io/v1beta1", "certificates.k8s.io/v1", "PodCertificateRequest"): (
        certificates.request_to_v1,
        dict,
    ),
    ("events.k8s.io/v1", "v1", "Event"): (events.new_to_core, events.core_to_new),
    ("resource.k8s.io/v1beta1", "resource.k8s.io/v1", "ResourceClaim"): (devices.claim_to_v1, devices.claim_to_v1beta1),
    ("resource.k8s.io/v1beta1", "resource.k8s.io/v1", "ResourceClaimTemplate"): (
        devices.template_to_v1,
        devices.template_to_v1beta1,
    ),
    ("resource.k8s.io/v1beta1", "resource.k8s.io/v1", "ResourceSlice"): (devices.slice_to_v1, devices.slice_to_v1beta1),
}
"""Maps the apiVersion of a version, that of the version through which all others are converted, and the kind to the
conversions in both directions."""


class NoConversion(ValueError):
    """There is no conversion between these two versions."""


def convert(value: dict[str, Any], to: GroupVersionKind) -> dict[str, Any]:
    """Return the object converted to `to`. `value` is not changed; the two may share parts."""
    api_version, kind = value["apiVersion"], value["kind"]
    if (api_version, kind) == (to.api_version, to.kind):
        return value
    if kind != to.kind:
        raise NoConversion(f"{api_version} {kind} is no {to.kind}")
    for change in _find_conversions(api_version, to.api_version, kind):
        value = change(value)
    return {**value, "apiVersion": to.api_version}


def convert_object(obj: Object, to: type[T]) -> T:
    """Return a typed object converted to another version of its kind."""
    target = to()
    group, _, version = target.apiVersion.rpartition("/")
    gvk = GroupVersionKind(group=group, version=version, kind=target.kind)
    return json.from_value(convert(json.to_value(obj), gvk), to)


def _find_conversions(source: str, target: str, kind: str) -> list[Change]:
    if way := _step(source, target, kind):
        return way
    for spoke, hub, name in _CHANGES:  # neither is the version with a conversion: go through it
        if name == kind and spoke in (source, target):
            first, second = _step(source, hub, kind), _step(hub, target, kind)
            if first and second:
                return [*first, *second]
    raise NoConversion(f"no conversion of {kind} from {source} to {target}")


def _step(source: str, target: str, kind: str) -> list[Change]:
    if changes := _CHANGES.get((source, target, kind)):
        return [changes[0]]
    if changes := _CHANGES.get((target, source, kind)):
        return [changes[1]]
    (group, _, version), (other_group, _, other) = source.rpartition("/"), target.rpartition("/")
    shared = SAME_SHAPE.get((group, kind), ())
    return [dict] if group == other_group and version in shared and other in shared else []


__all__ = ["SAME_SHAPE", "NoConversion", "convert", "convert_object"]
