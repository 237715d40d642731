"""Which requests the rules and selectors of a webhook or an admission policy apply to
(`k8s.io/apiserver/pkg/admission/plugin/webhook/predicates`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from sampan.api.resources.resource import Resource
from sampan.api.selectors.label_selector import LabelSelector, selector_of
from sampan.api.selectors.labels import Selector
from sampan.apiserver.admission.framework.contract import AdmissionAttributes
from sampan.apiserver.admission.framework.lookup import find
from sampan.machinery import errors

_ANY = "*"
_EQUIVALENT = "Equivalent"
_GROUP = "admissionregistration.k8s.io"
_EXEMPT = frozenset(
    {
        *("validatingwebhookconfigurations", "mutatingwebhookconfigurations"),
        *("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
        *("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
    }
)
_REVIEWS = frozenset(
    {
        *(("authentication.k8s.io", plural) for plural in ("selfsubjectreviews", "tokenreviews")),
        *(
            ("authorization.k8s.io", plural)
            for plural in (
                *("localsubjectaccessreviews", "selfsubjectaccessreviews"),
                *("selfsubjectrulesreviews", "subjectaccessreviews"),
            )
        ),
    }
)


class AdmissionRule(Protocol):
    @property
    def operations(self) -> Sequence[str]: ...
    @property
    def apiGroups(self) -> Sequence[str]: ...
    @property
    def apiVersions(self) -> Sequence[str]: ...
    @property
    def resources(self) -> Sequence[str]: ...
    @property
    def scope(self) -> str | None: ...


def is_exempt(resource: Resource) -> bool:
    """Whether a resource is exempt from webhooks and policies. The resources that configure webhooks and policies are:
    a faulty configuration could otherwise not be repaired."""
    return resource.group == _GROUP and resource.plural in _EXEMPT


def is_review(resource: Resource) -> bool:
    """Whether a resource asks who somebody is or what somebody may do: a webhook or policy that rejected it could lock
    everybody out of the cluster."""
    return (resource.group, resource.plural) in _REVIEWS


def find_matching_version(
    rules: Iterable[AdmissionRule], match_policy: str | None, attributes: AdmissionAttributes
) -> Resource | None:
    """Return the version of the requested resource that matches a rule, or None. The version of the request is
    preferred; with the policy Equivalent, any version of the same objects matches."""
    rules = list(rules)
    if any(matches_rule(rule, attributes, attributes.resource) for rule in rules):
        return attributes.resource
    if match_policy == _EQUIVALENT or match_policy is None:
        for other in attributes.registry.scheme.equivalent_resources(attributes.resource):
            if other.gvk != attributes.resource.gvk and any(matches_rule(rule, attributes, other) for rule in rules):
                return other
    return None


def matches_rule(rule: AdmissionRule, attributes: AdmissionAttributes, resource: Resource) -> bool:
    return (
        _includes(rule.operations, attributes.operation)
        and _includes(rule.apiGroups, resource.group)
        and _includes(rule.apiVersions, resource.version)
        and _is_in_scope(rule.scope, attributes)
        and any(_names_resource(pattern, resource.plural, attributes.subresource) for pattern in rule.resources)
    )


def _includes(values: Sequence[str], value: str) -> bool:
    return _ANY in values or value in values


def _is_in_scope(scope: str | None, attributes: AdmissionAttributes) -> bool:
    if scope in (None, _ANY):
        return True
    return attributes.resource.namespaced == (scope == "Namespaced")


def _names_resource(pattern: str, plural: str, subresource: str) -> bool:
    resource, _, part = pattern.partition("/")
    return resource in (_ANY, plural) and part in (_ANY, subresource)


class AdmissionSelectors:
    """The namespace selector and the object selector of a webhook or policy."""

    def __init__(self, namespace: LabelSelector | None, obj: LabelSelector | None) -> None:
        """A missing selector selects everything."""
        self._namespace = selector_of(namespace) if namespace is not None else None
        self._object = selector_of(obj) if obj is not None else None

    async def match(self, attributes: AdmissionAttributes) -> bool:
        """Whether the labels of the namespace match, and those of the new or the old object. Raise NotFound if the
        namespace does not exist."""
        if self._object is not None and not _matches_object(self._object, attributes):
            return False
        if self._namespace is None or self._namespace.is_everything:
            return True
        labels = await _namespace_labels(attributes)
        return labels is None or self._namespace.matches(labels)


def _matches_object(selector: Selector, attributes: AdmissionAttributes) -> bool:
    if selector.is_everything:
        return True
    objects = [obj for obj in (attributes.obj, attributes.old) if obj is not None]
    return any(selector.matches(labels_of(obj)) for obj in objects)


def labels_of(obj: object) -> Mapping[str, str]:
    metadata = getattr(obj, "metadata", None)
    return metadata.labels if metadata is not None else {}


async def _namespace_labels(attributes: AdmissionAttributes) -> Mapping[str, str] | None:
    """Return the labels of the request's namespace, or None for a cluster-scoped resource other than a namespace."""
    resource = attributes.resource
    is_namespace = resource.group == "" and resource.plural == "namespaces"
    if is_namespace and attributes.obj is not None and attributes.operation in ("CREATE", "UPDATE"):
        return labels_of(attributes.obj)
    namespace = namespace_of(attributes)
    if not namespace:
        return None
    stored = await find(attributes.registry.open_store_of("", "v1", "Namespace"), "", namespace)
    if stored is None:
        raise errors.not_found("namespaces", namespace)
    return labels_of(stored)


def namespace_of(attributes: AdmissionAttributes) -> str:
    """Return the namespace of the request; for a namespace object that is its own name."""
    resource = attributes.resource
    if resource.group == "" and resource.plural == "namespaces":
        return attributes.name
    return attributes.namespace if resource.namespaced else ""
