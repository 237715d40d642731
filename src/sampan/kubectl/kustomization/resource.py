"""An object of a kustomization, with the names that it had before transformations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Value = dict[str, Any]

CLUSTER_SCOPED = frozenset(
    {
        "APIService",
        "CSIDriver",
        "CSINode",
        "CertificateSigningRequest",
        "ClusterRole",
        "ClusterRoleBinding",
        "ComponentStatus",
        "CustomResourceDefinition",
        "FlowSchema",
        "IngressClass",
        "MutatingWebhookConfiguration",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PriorityClass",
        "PriorityLevelConfiguration",
        "RuntimeClass",
        "SelfSubjectAccessReview",
        "SelfSubjectRulesReview",
        "StorageClass",
        "StorageVersion",
        "SubjectAccessReview",
        "TokenReview",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
        "VolumeAttachment",
        "VolumeAttributesClass",
        "ClusterTrustBundle",
        "DeviceClass",
        "ResourceSlice",
        "ServiceCIDR",
        "IPAddress",
    }
)


@dataclass(slots=True)
class KustomizeResource:
    value: Value
    names: list[tuple[str, str]] = field(default_factory=list)
    """The pairs of name and namespace that the object had, oldest first."""
    scopes: list[str] = field(default_factory=list)
    """The directories of the kustomizations through which the object came, innermost first."""
    needs_hash: bool = False
    behavior: str = ""

    @property
    def kind(self) -> str:
        return str(self.value.get("kind", ""))

    @property
    def group(self) -> str:
        return str(self.value.get("apiVersion", "")).rpartition("/")[0]

    @property
    def version(self) -> str:
        return str(self.value.get("apiVersion", "")).rpartition("/")[2]

    @property
    def metadata(self) -> Value:
        metadata: Value = self.value.setdefault("metadata", {})
        return metadata

    @property
    def name(self) -> str:
        return str(self.metadata.get("name", ""))

    @property
    def namespace(self) -> str:
        return str(self.metadata.get("namespace") or "")

    @property
    def is_namespaced(self) -> bool:
        return self.kind not in CLUSTER_SCOPED

    @property
    def identity_text(self) -> str:
        """The resource as kustomize names it in errors: `Deployment.v1.apps/web.[noNs]`."""
        group = self.group or "[noGrp]"
        return f"{self.kind}.{self.version or '[noVer]'}.{group}/{self.name}.{self.namespace or '[noNs]'}"

    def remember_name(self) -> None:
        """Record the current name, before it changes."""
        if (self.name, self.namespace) not in self.names:
            self.names.append((self.name, self.namespace))

    def had_name(self, name: str, namespace: str | None = None) -> bool:
        every = [*self.names, (self.name, self.namespace)]
        return any(
            earlier_id == name and (namespace is None or _is_same_namespace(known_namespace, namespace))
            for earlier_id, known_namespace in every
        )


def _is_same_namespace(first: str, second: str) -> bool:
    return (first or "default") == (second or "default")


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """The path of a field that a transformer changes in objects of a kind; an empty kind means all kinds."""

    path: str
    kind: str = ""
    group: str = ""
    creates: bool = False

    def applies_to(self, resource: KustomizeResource) -> bool:
        return self.kind in ("", resource.kind) and self.group in ("", resource.group)


_SEPARATOR = re.compile(r"(?<!\\)/")


def holders(value: Any, path: str, *, creates: bool) -> Iterator[tuple[Any, str]]:
    """Yield each object that holds the field at a path, with the field's name. The path leads through all items of
    lists."""
    parts = [part.replace("\\/", "/").removesuffix("[]") for part in _SEPARATOR.split(path)]
    yield from _holders(value, parts, creates)


def _holders(value: Any, parts: list[str], creates: bool) -> Iterator[tuple[Any, str]]:
    if isinstance(value, list):
        for item in value:
            yield from _holders(item, parts, creates)
        return
    if not isinstance(value, dict):
        return
    if len(parts) == 1:
        if creates or value.get(parts[0]) is not None:
            yield value, parts[0]
        return
    inner = value.get(parts[0])
    if inner is None:
        if not creates:
            return
        inner = value[parts[0]] = {}
    yield from _holders(inner, parts[1:], creates)


def selector_matches(selector: str, labels: Mapping[str, str]) -> bool:
    from sampan.api.selectors import labels as label_selectors

    return bool(label_selectors.parse(selector).matches(dict(labels)))
