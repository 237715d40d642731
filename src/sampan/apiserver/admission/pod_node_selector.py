"""PodNodeSelector: applies the node selector of the namespace's annotation, or the cluster default, to pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sampan.api.resources.resource import Resource
from sampan.api.types.core_v1 import Namespace, Pod
from sampan.apiserver.admission.framework import lookup
from sampan.apiserver.admission.framework.admission_configuration import ConfigurationError
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation, is_pod_creation
from sampan.machinery import errors

ANNOTATION = "scheduler.alpha.kubernetes.io/node-selector"
_DEFAULT = "clusterDefaultNodeSelector"
_CONFLICT = "pod node label selector conflicts with its namespace node label selector"


class PodNodeSelector:
    name = "PodNodeSelector"

    def __init__(self, selectors: Mapping[str, str] | None = None) -> None:
        """`selectors` limits the node selectors of pods by namespace; the key `clusterDefaultNodeSelector` is the
        default."""
        self._selectors = selectors or {}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> PodNodeSelector:
        rows = config.get("podNodeSelectorPluginConfig") or {}
        if not isinstance(rows, Mapping):
            raise ConfigurationError("PodNodeSelector: podNodeSelectorPluginConfig: must be an object")
        return cls({str(name): str(text) for name, text in rows.items()})

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        return is_pod_creation(operation, resource, subresource)

    async def admit(self, attributes: AdmissionAttributes) -> None:
        pod: Pod = attributes.obj
        selector = await self._namespace_selector(attributes)
        _refuse_conflict(attributes, selector, pod.spec.nodeSelector)
        pod.spec.nodeSelector = {**selector, **pod.spec.nodeSelector}
        await self.validate(attributes)

    async def validate(self, attributes: AdmissionAttributes) -> None:
        pod: Pod = attributes.obj
        _refuse_conflict(attributes, await self._namespace_selector(attributes), pod.spec.nodeSelector)
        allowed = labels_of(self._selectors.get(attributes.namespace, ""))
        if allowed and not pod.spec.nodeSelector.items() <= allowed.items():
            raise attributes.forbidden("pod node label selector labels conflict with its namespace whitelist")

    async def _namespace_selector(self, attributes: AdmissionAttributes) -> dict[str, str]:
        store = attributes.registry.open_store_of("", "v1", "Namespace")
        namespace: Namespace | None = await lookup.find(store, "", attributes.namespace)
        if namespace is None:
            raise errors.not_found("namespaces", attributes.namespace)
        return labels_of(namespace.metadata.annotations.get(ANNOTATION, self._selectors.get(_DEFAULT, "")))


def labels_of(text: str) -> dict[str, str]:
    """Return the labels in `a=b,c=d`."""
    labels = {}
    for part in text.split(",") if text else ():
        key, equals, value = part.partition("=")
        if not equals:
            raise errors.internal_error(f"invalid selector: {part}")
        labels[key.strip()] = value.strip()
    return labels


def _refuse_conflict(attributes: AdmissionAttributes, selector: Mapping[str, str], other: Mapping[str, str]) -> None:
    if any(selector[key] != other[key] for key in selector.keys() & other.keys()):
        raise attributes.forbidden(_CONFLICT)
