"""The resource table and the behaviors of kinds agree, and each path resets the right fields."""

import pkgutil
from typing import Any

import pytest

from sampan.api.feature_gates import FeatureGates
from sampan.api.resources.resource import Resource
from sampan.api.scheme import builtin_scheme
from sampan.apiserver.registry import kinds
from sampan.apiserver.registry.behavior import ResourceBehavior, make_generic_behavior
from sampan.apiserver.registry.kinds import find_handlers
from sampan.machinery.apply import FieldFilter, IncludedFieldsFilter

OWNED_FIELDS: dict[str, Any] = {
    "f:metadata": {"f:labels": {"f:a": {}}, "f:ownerReferences": {}},
    "f:spec": {"f:x": {}},
    "f:status": {"f:conditions": {}, "f:y": {}},
}


GATES = FeatureGates({"CompositePodGroup": True, "EvictionRequestAPI": True, "GenericWorkload": True})
RESOURCES = list(builtin_scheme({"api/all": True}, GATES))


def behavior_of(resource: Resource) -> ResourceBehavior:
    return kinds.find_behavior(resource.group, resource.plural) or make_generic_behavior(resource)


def reset_filter(resource: Resource, subresource: str) -> FieldFilter:
    return behavior_of(resource).reset_fields(resource, subresource)


def test_every_module_belongs_to_a_row_of_the_resource_table() -> None:
    modules = {module.name for module in pkgutil.iter_modules(kinds.__path__)}
    plurals = {resource.plural for resource in RESOURCES}
    assert modules <= plurals | {"events_v1"}


def test_events_of_both_api_groups_have_separate_behaviors() -> None:
    groups: dict[str, set[str]] = {}
    for resource in RESOURCES:
        groups.setdefault(resource.plural, set()).add(resource.group)
    assert {plural for plural, names in groups.items() if len(names) > 1} == {"events"}
    assert kinds.find_behavior("", "events") is not kinds.find_behavior("events.k8s.io", "events")


def test_a_plural_of_another_group_is_not_a_built_in_kind() -> None:
    assert kinds.find_behavior("metrics.k8s.io", "pods") is None


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: f"{resource.qualified}-{resource.version}")
def test_resource_table_and_behavior_declare_the_same_subresources(resource: Resource) -> None:
    behavior, handlers = behavior_of(resource), find_handlers(resource.group, resource.plural)
    declared = {subresource.name for subresource in resource.subresources}
    served = {name for name in (*behavior.views, *handlers) if name}
    assert declared - {"status"} == served - {"status"}
    assert "status" in declared or "status" not in behavior.views
    assert ("" in handlers) == (resource.storage is None), "only kinds that are not stored have a handler"


@pytest.mark.parametrize(
    ("group", "version", "kind", "subresource", "kept"),
    [
        ("", "v1", "ConfigMap", "", ["metadata", "spec", "status"]),
        ("", "v1", "Pod", "", ["metadata", "spec"]),
        ("", "v1", "Pod", "status", ["metadata", "status"]),
        ("", "v1", "Node", "status", ["metadata", "status"]),
        ("", "v1", "Namespace", "finalize", ["metadata", "spec"]),
        ("apps", "v1", "Deployment", "status", ["metadata", "status"]),
        ("apps", "v1", "Deployment", "scale", ["metadata", "spec", "status"]),
        ("storage.k8s.io", "v1", "VolumeAttachment", "status", ["status"]),
        ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "status", ["status"]),
        ("networking.k8s.io", "v1", "ServiceCIDR", "status", ["metadata", "spec", "status"]),
        ("certificates.k8s.io", "v1", "CertificateSigningRequest", "", ["metadata"]),
        ("certificates.k8s.io", "v1", "CertificateSigningRequest", "approval", ["metadata", "status"]),
    ],
)
def test_managers_own_only_fields_that_the_subresource_does_not_reset(
    group: str, version: str, kind: str, subresource: str, kept: list[str]
) -> None:
    resource = builtin_scheme().find_by_kind(group, version, kind)
    assert resource is not None
    fields = reset_filter(resource, subresource).filter_fields(OWNED_FIELDS)
    assert [element.removeprefix("f:") for element in fields] == kept


def test_reset_fields_within_metadata_and_status() -> None:
    scheme = builtin_scheme()
    pods, deployments = scheme.find_by_kind("", "v1", "Pod"), scheme.find_by_kind("apps", "v1", "Deployment")
    requests = scheme.find_by_kind("certificates.k8s.io", "v1", "CertificateSigningRequest")
    assert pods is not None
    assert deployments is not None
    assert requests is not None
    assert reset_filter(pods, "status").filter_fields(OWNED_FIELDS)["f:metadata"] == {"f:labels": {"f:a": {}}}
    assert reset_filter(deployments, "status").filter_fields(OWNED_FIELDS)["f:metadata"] == {"f:ownerReferences": {}}
    assert reset_filter(requests, "status").filter_fields(OWNED_FIELDS)["f:status"] == {"f:y": {}}


def test_resize_may_own_only_container_resources() -> None:
    pods = builtin_scheme().find_by_kind("", "v1", "Pod")
    assert pods is not None
    resize = reset_filter(pods, "resize")
    assert isinstance(resize, IncludedFieldsFilter)
    item = 'k:{"name":"c"}'
    fields: dict[str, Any] = {
        "f:spec": {"f:containers": {item: {".": {}, "f:image": {}, "f:resources": {"f:limits": {}}}}, "f:nodeName": {}}
    }
    assert resize.filter_fields(fields) == {
        "f:spec": {"f:containers": {item: {".": {}, "f:resources": {"f:limits": {}}}}}
    }


@pytest.mark.parametrize(("kind", "keeps_metadata"), [("ServiceCIDR", True), ("CustomResourceDefinition", False)])
def test_status_update_keeps_metadata_of_service_cidr_but_not_of_crd(kind: str, keeps_metadata: bool) -> None:
    (resource,) = [resource for resource in builtin_scheme() if resource.kind == kind]
    assert behavior_of(resource).status_keeps_metadata is keeps_metadata
