"""Built-in transformers: namespace, names, labels, annotations, replicas and images (kustomize's filters)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from sampan.kubectl.errors import KubectlError
from sampan.kubectl.kustomization.resource import FieldSpec, KustomizeResource, holders

Resources = list[KustomizeResource]

_UNPREFIXED_KINDS = frozenset({"CustomResourceDefinition", "APIService", "Namespace"})
_SCALABLE = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController")
_TEMPLATE_KINDS = ("ReplicationController", "Deployment", "ReplicaSet", "DaemonSet")


def _template_specs(field: str) -> tuple[FieldSpec, ...]:
    path = f"spec/template/metadata/{field}"
    specs = [FieldSpec(path, kind, creates=True) for kind in _TEMPLATE_KINDS]
    specs.append(FieldSpec(path, "StatefulSet", "apps" if field == "labels" else "", creates=True))
    if field == "labels":
        specs.append(FieldSpec("spec/volumeClaimTemplates[]/metadata/labels", "StatefulSet", "apps", creates=True))
    specs.append(FieldSpec(path, "Job", "batch", creates=True))
    specs.append(FieldSpec(f"spec/jobTemplate/metadata/{field}", "CronJob", "batch", creates=True))
    specs.append(FieldSpec(f"spec/jobTemplate/{path}", "CronJob", "batch", creates=True))
    return tuple(specs)


_METADATA_LABELS = (FieldSpec("metadata/labels", creates=True),)
_TEMPLATE_LABELS = (*_METADATA_LABELS, *_template_specs("labels"))
_ANNOTATIONS = (FieldSpec("metadata/annotations", creates=True), *_template_specs("annotations"))
_AFFINITY = "spec/template/spec/affinity"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution/podAffinityTerm/labelSelector/matchLabels"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution/labelSelector/matchLabels"
_SELECTORS = (
    FieldSpec("spec/selector", "Service", creates=True),
    FieldSpec("spec/selector", "ReplicationController", creates=True),
    FieldSpec("spec/selector/matchLabels", "Deployment", creates=True),
    FieldSpec("spec/selector/matchLabels", "ReplicaSet", creates=True),
    FieldSpec("spec/selector/matchLabels", "DaemonSet", creates=True),
    FieldSpec("spec/selector/matchLabels", "StatefulSet", "apps", creates=True),
    *(
        FieldSpec(path, kind, "apps")
        for kind in ("Deployment", "StatefulSet")
        for path in (
            f"{_AFFINITY}/podAffinity/{_PREFERRED}",
            f"{_AFFINITY}/podAffinity/{_REQUIRED}",
            f"{_AFFINITY}/podAntiAffinity/{_PREFERRED}",
            f"{_AFFINITY}/podAntiAffinity/{_REQUIRED}",
            "spec/template/spec/topologySpreadConstraints/labelSelector/matchLabels",
        )
    ),
    FieldSpec("spec/selector/matchLabels", "Job", "batch"),
    FieldSpec("spec/jobTemplate/spec/selector/matchLabels", "CronJob", "batch"),
    FieldSpec("spec/selector/matchLabels", "PodDisruptionBudget", "policy"),
    FieldSpec("spec/podSelector/matchLabels", "NetworkPolicy", "networking.k8s.io"),
    FieldSpec("spec/ingress/from/podSelector/matchLabels", "NetworkPolicy", "networking.k8s.io"),
    FieldSpec("spec/egress/to/podSelector/matchLabels", "NetworkPolicy", "networking.k8s.io"),
)
_COMMON_LABELS = (*_SELECTORS, *_TEMPLATE_LABELS)


def set_namespace(resources: Resources, namespace: str) -> None:
    """Put all namespaced objects into a namespace, and rename Namespace objects to it."""
    for resource in resources:
        resource.remember_name()
        if resource.is_namespaced:
            resource.metadata["namespace"] = namespace
        elif resource.kind == "Namespace" and resource.value.get("apiVersion") == "v1":
            resource.metadata["name"] = namespace
        if resource.kind in ("RoleBinding", "ClusterRoleBinding"):
            for subject in resource.value.get("subjects") or ():
                if subject.get("name") == "default":
                    subject["namespace"] = namespace
        if resource.kind == "APIService" and isinstance((resource.value.get("spec") or {}).get("service"), dict):
            resource.value["spec"]["service"]["namespace"] = namespace
        if resource.kind == "CustomResourceDefinition":
            path = "spec/conversion/webhook/clientConfig/service/namespace"
            for holder, field in holders(resource.value, path, creates=False):
                holder[field] = namespace


def add_to_names(resources: Resources, prefix: str, suffix: str) -> None:
    for resource in resources:
        if resource.kind not in _UNPREFIXED_KINDS:
            resource.remember_name()
            resource.metadata["name"] = f"{prefix}{resource.name}{suffix}"


def _set_values(resources: Resources, specs: Iterable[FieldSpec], values: Mapping[str, Any]) -> None:
    texts = {str(key): _text(value) for key, value in values.items()}
    for resource in resources:
        for spec in specs:
            if spec.applies_to(resource):
                for holder, field in holders(resource.value, spec.path, creates=spec.creates):
                    holder[field] = {**(holder.get(field) or {}), **texts}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def add_common_labels(resources: Resources, values: Mapping[str, Any]) -> None:
    _set_values(resources, _COMMON_LABELS, values)


def add_labels(resources: Resources, entry: Mapping[str, Any]) -> None:
    """Add the labels of an entry of `labels` in a kustomization, also to selectors or templates if the entry says
    so."""
    specs: tuple[FieldSpec, ...] = _METADATA_LABELS
    if entry.get("includeSelectors"):
        specs = _COMMON_LABELS
    elif entry.get("includeTemplates"):
        specs = _TEMPLATE_LABELS
    own = tuple(
        FieldSpec(str(field["path"]), field.get("kind", ""), field.get("group", ""), bool(field.get("create")))
        for field in entry.get("fields") or ()
    )
    _set_values(resources, (*specs, *own), entry.get("pairs") or {})


def add_annotations(resources: Resources, values: Mapping[str, Any]) -> None:
    _set_values(resources, _ANNOTATIONS, values)


def set_replicas(resources: Resources, entry: Mapping[str, Any]) -> None:
    name = str(entry.get("name", ""))
    matches = [resource for resource in resources if resource.kind in _SCALABLE and resource.had_name(name)]
    if not matches:
        kinds = " ".join(f"{kind}.[noVer].[noGrp]" for kind in _SCALABLE)
        raise KubectlError(f"resource with name {name} does not match a config with the following GVK [{kinds}]")
    for resource in matches:
        resource.value.setdefault("spec", {})["replicas"] = int(entry.get("count") or 0)


# -- images ----------------------------------------------------------------------------------------------------------


def set_image(resources: Resources, entry: Mapping[str, Any]) -> None:
    for resource in resources:
        if resource.kind != "CustomResourceDefinition":
            _set_images(resource.value, entry)


def _set_images(value: Any, entry: Mapping[str, Any]) -> None:
    if isinstance(value, list):
        for item in value:
            _set_images(item, entry)
    elif isinstance(value, dict):
        for field in ("containers", "initContainers"):
            for container in value[field] if isinstance(value.get(field), list) else ():
                if isinstance(container, dict) and isinstance(container.get("image"), str):
                    container["image"] = replace_image(container["image"], entry)
        for volume in value["volumes"] if isinstance(value.get("volumes"), list) else ():
            source = volume.get("image") if isinstance(volume, dict) else None
            if isinstance(source, dict) and isinstance(source.get("reference"), str):
                source["reference"] = replace_image(source["reference"], entry)
        for part in value.values():
            _set_images(part, entry)


def replace_image(image: str, entry: Mapping[str, Any]) -> str:
    """Return the image with the new name, tag and digest of an entry of `images`. Return it unchanged if the entry
    names another image."""
    name, tag, digest = split_image(image)
    if name != str(entry.get("name", "")):
        return image
    name = str(entry.get("newName") or name)
    if entry.get("newTag"):
        tag, digest = str(entry["newTag"]), ""
    if entry.get("tagSuffix"):
        tag += str(entry["tagSuffix"])
    if entry.get("digest"):
        digest = str(entry["digest"])
        tag = str(entry["newTag"]) if entry.get("newTag") else ""
    return name + (f":{tag}" if tag else "") + (f"@{digest}" if digest else "")


_TAG = re.compile(r":([^:/@]*)$")


def split_image(image: str) -> tuple[str, str, str]:
    """Return the name, tag and digest of an image."""
    reference, _, digest = image.partition("@")
    match = _TAG.search(reference)
    return (reference[: match.start()], match[1], digest) if match else (reference, "", digest)
