"""The parameters of a policy binding: the objects that `paramRef` names or selects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sampan.api.label_selector import selector_of
from sampan.api.types.admissionregistration_v1 import ParamKind, ParamRef
from sampan.apiserver.admission.contract import AdmissionAttributes
from sampan.apiserver.admission.lookup import everything, find, in_namespace
from sampan.apiserver.admission.versioned_object import VersionedObjects

if TYPE_CHECKING:
    from sampan.api.resource import Resource

_NONE_FOUND = "no params found for policy binding with `Deny` parameterNotFoundAction"


class ParamsError(ValueError):
    """The parameters of a binding cannot be determined."""


async def params_of(
    kind: ParamKind | None, reference: ParamRef | None, attributes: AdmissionAttributes
) -> Sequence[Any] | None:
    """Return the parameters as JSON values, for each of which the policy is evaluated; a single None if the policy or
    the binding has no parameters. Return None if the binding does not apply because there are none. Raise
    `ParamsError`."""
    if kind is None or reference is None:
        return [None]
    resource = _resource_of(kind, attributes)
    namespace = _namespace_of(resource, reference, attributes)
    store = attributes.registry.open_store(resource)
    if reference.name:
        obj = await find(store, namespace, reference.name)
        objects = [] if obj is None else [obj]
    else:
        selector = selector_of(reference.selector)
        candidates = await in_namespace(store, namespace) if namespace else await everything(store)
        objects = [obj for obj in candidates if selector.matches(obj.metadata.labels)]
    if not objects:
        if reference.parameterNotFoundAction == "Deny":
            raise ParamsError(_NONE_FOUND)
        return None
    versioned = VersionedObjects(attributes.registry, resource)
    return [await versioned.value(obj) for obj in objects]


def _resource_of(kind: ParamKind, attributes: AdmissionAttributes) -> Resource:
    group, _, version = kind.apiVersion.rpartition("/")
    resource = attributes.registry.scheme.by_kind(group, version, kind.kind)
    if resource is None:
        shown = f"{kind.apiVersion}, Kind={kind.kind}"
        raise ParamsError(f"failed to find resource referenced by paramKind: '{shown}'")
    return resource


def _namespace_of(resource: Resource, reference: ParamRef, attributes: AdmissionAttributes) -> str:
    if not resource.namespaced:
        if reference.namespace:
            raise ParamsError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        return ""
    if reference.namespace:
        return reference.namespace
    if not attributes.resource.namespaced:
        raise ParamsError("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
    return attributes.namespace
