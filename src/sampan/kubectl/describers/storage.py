"""Descriptions of persistent volumes, claims and their classes."""

from __future__ import annotations

from collections.abc import Sequence

from sampan.kubectl.describers.cluster_view import ClusterView
from sampan.kubectl.describers.layout import (
    NONE,
    Lines,
    Value,
    format_age,
    format_labels,
    format_list,
    go_text,
    heading,
    items,
    meta,
    part,
    time_text,
    true_or_false,
)
from sampan.kubectl.describers.volumes import (
    PERSISTENT_FORMATS,
    access_modes_text,
    claim_lines,
    source_lines,
    storage_class_of,
)

_DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def _status_text(obj: Value) -> str:
    deletion = meta(obj).get("deletionTimestamp")
    return f"Terminating (lasts {format_age(deletion)})" if deletion else str(part(obj, "status").get("phase", ""))


def describe_persistent_volume(obj: Value, view: ClusterView) -> Lines:
    spec = part(obj, "spec")
    claim = spec.get("claimRef")
    yield from heading(obj, has_namespace=False)
    yield f"Finalizers:\t{go_text(meta(obj).get('finalizers') or [])}"
    yield f"StorageClass:\t{storage_class_of(obj)}"
    yield f"Status:\t{_status_text(obj)}"
    yield f"Claim:\t{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "Claim:\t"
    yield f"Reclaim Policy:\t{spec.get('persistentVolumeReclaimPolicy', '')}"
    yield f"Access Modes:\t{access_modes_text(items(spec, 'accessModes'))}"
    if spec.get("volumeMode") is not None:
        yield f"VolumeMode:\t{spec['volumeMode']}"
    yield f"Capacity:\t{part(spec, 'capacity').get('storage', '0')}"
    yield from _node_affinity(spec.get("nodeAffinity"))
    yield f"Message:\t{part(obj, 'status').get('message', '')}"
    yield "Source:"
    yield from source_lines(spec, PERSISTENT_FORMATS)
    yield from view.events(obj, kind="PersistentVolume")


def _node_affinity(affinity: Value | None) -> Lines:
    if affinity is None or affinity.get("required") is None:
        yield f"Node Affinity:\t{NONE}"
        return
    yield "Node Affinity:\t"
    terms = items(affinity, "required", "nodeSelectorTerms")
    yield f"  Required Terms:\t{'' if terms else NONE}"
    for index, term in enumerate(terms):
        texts = [
            _requirement(entry, str(entry.get("operator", "")).lower()) for entry in items(term, "matchExpressions")
        ]
        yield from format_list(f"Term {index}", texts, "    ")


def _requirement(requirement: Value, operator: str) -> str:
    values = items(requirement, "values")
    return f"{requirement.get('key')} {operator}" + (f" [{', '.join(values)}]" if values else "")


def describe_claim(obj: Value, view: ClusterView) -> Lines:
    namespace = str(meta(obj).get("namespace", ""))
    yield f"Name:\t{meta(obj).get('name')}"
    yield f"Namespace:\t{namespace}"
    yield from claim_lines(obj, _status_text(obj))
    yield from format_list("Used By", sorted(_pods_with_claim(obj, view.pods(namespace))))
    if rows := items(obj, "status", "conditions"):
        yield "Conditions:"
        yield "  Type\tStatus\tLastProbeTime\tLastTransitionTime\tReason\tMessage"
        yield "  ----\t------\t-----------------\t------------------\t------\t-------"
        for row in rows:
            yield (
                f"  {row.get('type')} \t{row.get('status')} \t{time_text(row.get('lastProbeTime'))} \t"
                f"{time_text(row.get('lastTransitionTime'))} \t{row.get('reason', '')} \t{row.get('message', '')}"
            )
    yield from view.events(obj, kind="PersistentVolumeClaim")


def _pods_with_claim(claim: Value, pods: Sequence[Value]) -> list[str]:
    """Return the names of the pods that mount a claim or own it."""
    name = meta(claim).get("name")
    owners = {ref.get("uid") for ref in items(claim, "metadata", "ownerReferences") if ref.get("kind") == "Pod"}
    users = []
    for pod in pods:
        mounts = [
            volume
            for volume in items(pod, "spec", "volumes")
            if part(volume, "persistentVolumeClaim").get("claimName") == name
        ]
        count = len(mounts) or (meta(pod).get("uid") in owners)
        users += [str(meta(pod).get("name"))] * count
    return users


def describe_storage_class(obj: Value, view: ClusterView) -> Lines:
    values = part(obj, "metadata", "annotations")
    yield f"Name:\t{meta(obj).get('name')}"
    yield f"IsDefaultClass:\t{'Yes' if any(values.get(key) == 'true' for key in _DEFAULT_CLASS) else 'No'}"
    yield f"Annotations:\t{format_labels(values)}"
    yield f"Provisioner:\t{obj.get('provisioner', '')}"
    yield f"Parameters:\t{format_labels(obj.get('parameters'))}"
    yield f"AllowVolumeExpansion:\t{true_or_false(obj.get('allowVolumeExpansion'))}"
    options = items(obj, "mountOptions")
    yield "MountOptions:" if options else f"MountOptions:\t{NONE}"
    yield from (f"  {option}" for option in options)
    for title, field in (("ReclaimPolicy", "reclaimPolicy"), ("VolumeBindingMode", "volumeBindingMode")):
        if obj.get(field) is not None:
            yield f"{title}:\t{obj[field]}"
    if obj.get("allowedTopologies") is not None:
        yield f"AllowedTopologies:\t{'' if obj['allowedTopologies'] else NONE}"
        for index, term in enumerate(obj["allowedTopologies"]):
            texts = [_requirement(entry, "in") for entry in items(term, "matchLabelExpressions")]
            yield from format_list(f"Term {index}", texts, "  ")
    yield from view.events(obj, kind="StorageClass")


def describe_volume_attributes_class(obj: Value, view: ClusterView) -> Lines:
    yield f"Name:\t{meta(obj).get('name')}"
    yield f"Annotations:\t{format_labels(meta(obj).get('annotations'))}"
    yield f"DriverName:\t{obj.get('driverName', '')}"
    yield f"Parameters:\t{format_labels(obj.get('parameters'))}"
    yield from view.events(obj, kind="VolumeAttributesClass")


def describe_csi_node(obj: Value, view: ClusterView) -> Lines:
    yield from heading(obj, has_namespace=False)
    yield f"CreationTimestamp:\t{time_text(meta(obj).get('creationTimestamp'))}"
    yield "Spec:"
    drivers = part(obj, "spec").get("drivers")
    if drivers is not None:
        yield "  Drivers:"
        for driver in drivers:
            yield f"    {driver.get('name')}:"
            yield f"      Node ID:\t{driver.get('nodeID', '')}"
            if part(driver, "allocatable").get("count") is not None:
                yield "      Allocatables:"
                yield f"        Count:\t{driver['allocatable']['count']}"
            if driver.get("topologyKeys") is not None:
                yield f"      Topology Keys:\t{go_text(driver['topologyKeys'])}"
    yield from view.events(obj, kind="CSINode")
