"""One policy and one request: whether the policy applies, the parameters of its binding (the objects that `paramRef`
names or selects), and the variables of its expressions."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sampan.api import limits
from sampan.api.codec import json
from sampan.api.selectors.label_selector import selector_of
from sampan.api.types.admissionregistration_v1 import ParamKind, ParamRef
from sampan.apiserver.admission.framework.contract import AdmissionAttributes
from sampan.apiserver.admission.framework.expressions import ConditionFailure, RequestExpressions, conditions_match
from sampan.apiserver.admission.framework.lookup import find, list_all, list_in_namespace
from sampan.apiserver.admission.framework.metrics import AdmissionMetrics, AdmissionType
from sampan.apiserver.admission.framework.predicates import namespace_of
from sampan.apiserver.admission.framework.versioned_object import VersionedObjects
from sampan.apiserver.admission.webhooks.review import complete_request, request_variables
from sampan.machinery.cel.admission import LazyVariables
from sampan.machinery.cel.errors import CelError, CostLimitExceeded

if TYPE_CHECKING:
    from sampan.api.resources.resource import Resource
    from sampan.machinery.cel import Program


_HIDDEN_NAMESPACE_FIELDS = ("managedFields", "ownerReferences", "selfLink")


class PolicyRequest:
    """A request as the expressions of policies see it. The values are computed on first use."""

    def __init__(self, attributes: AdmissionAttributes, *, type: AdmissionType, metrics: AdmissionMetrics) -> None:
        self.attributes, self.type, self.metrics = attributes, type, metrics
        self.expressions = RequestExpressions(attributes)
        self._namespace: dict[str, Any] | None = None
        self._has_namespace = False

    async def variables(self, resource: Resource) -> dict[str, Any]:
        """Return the variables that do not depend on a binding. `resource` is the version that matched."""
        attributes = self.attributes
        objects = VersionedObjects(attributes.registry, resource)
        return {
            "object": await objects.value(attributes.obj),
            "oldObject": await objects.value(attributes.old),
            "request": complete_request(request_variables(attributes, resource, objects)),
            "namespaceObject": await self._namespace_object(),
            **self.expressions.authorizer_variables(),
        }

    async def _namespace_object(self) -> dict[str, Any] | None:
        """Return the namespace of the request, without fields that are not for expressions; None for an object that is
        not in a namespace."""
        if not self._has_namespace:
            self._has_namespace = True
            attributes = self.attributes
            if attributes.resource.namespaced and (name := namespace_of(attributes)):
                store = attributes.registry.open_store_of("", "v1", "Namespace")
                namespace = await find(store, "", name)
                if namespace is not None:
                    value = json.to_value(namespace)
                    meta = value.get("metadata", {})
                    value["metadata"] = {name: meta[name] for name in meta if name not in _HIDDEN_NAMESPACE_FIELDS}
                    self._namespace = value
        return self._namespace


class PolicyEvaluation:
    """Evaluates the expressions of a policy for one binding and parameter, within a cost budget."""

    def __init__(
        self,
        request: PolicyRequest,
        base: Mapping[str, Any],
        *,
        params: Any,
        variables: Mapping[str, Program | CelError],
    ) -> None:
        self._request, self._expressions = request, request.expressions
        self.values: dict[str, Any] = {**base, "params": params}
        self._lazy = LazyVariables(variables, self.values)
        self.values["variables"] = self._lazy
        self._cost = 0

    async def evaluate(self, program: Program | CelError) -> Any:
        """Return the value of an expression. Raise CelError, also if the policy has cost more than its budget."""
        if isinstance(program, CelError):
            raise program
        value, cost = await self._expressions.evaluate(program, self.values)
        self._cost += cost
        if self._cost + self._lazy.cost > limits.CEL_POLICY_COST:
            raise CostLimitExceeded
        return value

    async def conditions_match(
        self, policy: str, conditions: Sequence[tuple[str, Program | CelError]]
    ) -> tuple[bool, list[ConditionFailure]]:
        """Return whether no match condition of a policy is false, and the conditions that failed."""
        if not conditions:
            return True, []
        request, start = self._request, time.perf_counter()
        is_match, failures = await conditions_match(self._expressions, conditions, lambda: self.values)
        request.metrics.record_match_conditions(
            policy,
            "policy",
            request.type,
            request.attributes.operation,
            seconds=time.perf_counter() - start,
            is_match=is_match,
            error_count=len(failures),
        )
        return is_match, failures


_NONE_FOUND = "no params found for policy binding with `Deny` parameterNotFoundAction"


class ParamsError(ValueError):
    """The parameters of a binding cannot be determined."""


class ParamKindError(ValueError):
    """The kind of a policy's parameters does not exist."""


def require_param_kind(kind: ParamKind | None, attributes: AdmissionAttributes) -> None:
    """Raise ParamKindError if the kind of a policy's parameters does not exist."""
    if kind is not None:
        _resource_of(kind, attributes)


async def params_of(
    kind: ParamKind | None, reference: ParamRef | None, attributes: AdmissionAttributes
) -> Sequence[Any] | None:
    """Return the parameter objects of a binding as JSON values; the policy is evaluated once for each. Return `[None]`
    if the policy has no paramKind or the binding no paramRef. If no parameter object exists, return None, which means
    that the binding does not apply, or raise `ParamsError` if parameterNotFoundAction is Deny."""
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
        candidates = await list_in_namespace(store, namespace) if namespace else await list_all(store)
        objects = [obj for obj in candidates if selector.matches(obj.metadata.labels)]
    if not objects:
        if reference.parameterNotFoundAction == "Deny":
            raise ParamsError(_NONE_FOUND)
        return None
    versioned = VersionedObjects(attributes.registry, resource)
    return [await versioned.value(obj) for obj in objects]


def _resource_of(kind: ParamKind, attributes: AdmissionAttributes) -> Resource:
    group, _, version = kind.apiVersion.rpartition("/")
    resource = attributes.registry.scheme.find_by_kind(group, version, kind.kind)
    if resource is None:
        shown = f"{kind.apiVersion}, Kind={kind.kind}"
        raise ParamKindError(f"failed to find resource referenced by paramKind: '{shown}'")
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
