"""Paths, kinds and versions: resolution of resources, and the API versions that are served."""

from typing import Any

import pytest

from sampan.api.resources import runtime_config
from sampan.api.resources.resource import GroupVersionKind, Resource
from sampan.api.schema.tree import ANY
from sampan.api.scheme import ResourcePath, Scheme, builtin_scheme, parse_path, type_for
from sampan.api.types import apps_v1, core_v1, meta_v1, resource_v1beta1

SCHEME = builtin_scheme()
POD = {"plural": "pods", "namespace": "a", "name": "b", "in_namespace": True}
NAMESPACE = {"plural": "namespaces", "namespace": "a", "name": "a"}


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("/api/v1/pods", {"plural": "pods"}),
        ("/api/v1/namespaces", {"plural": "namespaces"}),
        ("/api/v1/namespaces/a", NAMESPACE),
        ("/api/v1/namespaces/a/status", NAMESPACE | {"subresource": "status"}),
        ("/api/v1/namespaces/a/pods", {"plural": "pods", "namespace": "a", "in_namespace": True}),
        ("/api/v1/namespaces/a/pods/", {"plural": "pods", "namespace": "a", "in_namespace": True}),
        ("/api/v1/namespaces//pods", {"plural": "pods", "in_namespace": True}),
        ("/api/v1/namespaces/a/pods/b", POD),
        (
            "/api/v1/namespaces/a/pods/b/proxy/x/y",
            POD | {"subresource": "proxy", "rest": ("x", "y")},
        ),
        ("/api/v1/proxy/nodes/n", {"plural": "nodes", "name": "n", "subresource": "proxy"}),
        (
            "/api/v1/proxy/nodes/n:10250/logs/",
            {"plural": "nodes", "name": "n:10250", "subresource": "proxy", "rest": ("logs",)},
        ),
        ("/api/v1/proxy/namespaces/a/pods/b/x/y", POD | {"subresource": "proxy", "rest": ("x", "y")}),
        ("/api/v1/proxy/namespaces/a/services/b", POD | {"plural": "services", "subresource": "proxy"}),
        (
            "/api/v1/proxy/namespaces/a/secrets/b",
            {"plural": "proxy", "name": "namespaces", "subresource": "a", "rest": ("secrets", "b")},
        ),
        (
            "/api/v1/proxy/namespaces/a/pods",
            {"plural": "proxy", "name": "namespaces", "subresource": "a", "rest": ("pods",)},
        ),
        ("/api/v1/watch/pods", {"plural": "pods", "watch": True}),
        ("/api/v1/watch/namespaces/a/pods/b", POD | {"watch": True}),
        ("/apis/apps/v1/deployments", {"group": "apps", "plural": "deployments"}),
    ],
)
def test_parse_path(path: str, parts: dict[str, Any]) -> None:
    assert parse_path(path) == ResourcePath(**({"group": "", "version": "v1"} | parts))


@pytest.mark.parametrize("path", ["/", "", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/healthz", "//"])
def test_non_resource_paths_are_not_parsed(path: str) -> None:
    assert parse_path(path) is None
    assert SCHEME.resolve(path) is None


@pytest.mark.parametrize(
    ("path", "plural"),
    [
        ("/api/v1/pods", "pods"),
        ("/api/v1/namespaces/a/pods/b/log", "pods"),
        ("/api/v1/nodes/n/status", "nodes"),
        ("/apis/apps/v1/namespaces/a/deployments/b/scale", "deployments"),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node", "clusterroles"),
        ("/api/v1/pods/b", None),  # the namespace is missing
        ("/api/v1/namespaces/a/nodes/n", None),  # nodes are cluster-scoped
        ("/api/v1/namespaces/a/pods/b/nothing", None),
        ("/api/v1/chairs", None),
        ("/apis/apps/v2/deployments", None),
    ],
)
def test_resolve(path: str, plural: str | None) -> None:
    route = SCHEME.resolve(path)
    assert (route.resource.plural if route else None) == plural


def test_custom_resources_are_added_and_removed() -> None:
    scheme = builtin_scheme()
    things = Resource(group="example.com", version="v1", kind="Thing", plural="things", singular="thing", schema=ANY)
    newer = Resource(group="example.com", version="v2", kind="Thing", plural="things", singular="thing", schema=ANY)
    beta = Resource(group="example.com", version="v3beta1", kind="Thing", plural="things", singular="thing", schema=ANY)
    for resource in (things, beta, newer):
        scheme.add(resource)
    assert scheme.resource("example.com", "v1", "things") is things
    assert scheme.find_by_kind("example.com", "v2", "Thing") is newer
    assert scheme.groups()[-1] == "example.com"
    assert scheme.versions("example.com") == ["v2", "v1", "v3beta1"]
    assert scheme.type_of(things) is None
    renamed = Resource(group="example.com", version="v1", kind="Stuff", plural="things", singular="stuff", schema=ANY)
    scheme.add(renamed)
    assert scheme.find_by_kind("example.com", "v1", "Thing") is None
    for resource in (renamed, beta, newer):
        scheme.remove(resource)
    assert "example.com" not in scheme.groups()
    scheme.remove(things)  # removing it again is allowed


def test_change_of_a_group_keeps_the_generation_of_other_groups() -> None:
    scheme = builtin_scheme()
    pods, deployments = scheme.resource("", "v1", "pods"), scheme.resource("apps", "v1", "deployments")
    assert pods is not None
    assert deployments is not None
    before = {group: scheme.group_generation(group) for group in scheme.groups()}
    scheme.remove(deployments)
    scheme.add(deployments)
    changed = [group for group in scheme.groups() if scheme.group_generation(group) != before[group]]
    assert changed == ["apps"]
    assert deployments in scheme.resources("apps", "v1")
    assert scheme.equivalent_resources(deployments) == [deployments]
    assert scheme.group_generation("never.example.com") == 0
    assert (scheme.has_group("apps"), scheme.is_custom_group("apps")) == (True, False)


def test_storage_prefixes_are_those_of_the_real_server() -> None:
    prefixes = {r.qualified: r.storage_prefix for r in SCHEME if r.storage}
    assert prefixes["pods"] == "/registry/pods"
    assert prefixes["services"] == "/registry/services/specs"
    assert prefixes["endpoints"] == "/registry/services/endpoints"
    assert prefixes["nodes"] == "/registry/minions"
    assert prefixes["replicationcontrollers"] == "/registry/controllers"
    assert prefixes["ingresses.networking.k8s.io"] == "/registry/ingress"
    assert prefixes["events.events.k8s.io"] == prefixes["events"] == "/registry/events"
    assert prefixes["deployments.apps"] == "/registry/deployments"
    assert prefixes["clusterroles.rbac.authorization.k8s.io"] == "/registry/clusterroles"
    assert prefixes["apiservices.apiregistration.k8s.io"] == "/registry/apiregistration.k8s.io/apiservices"
    assert prefixes["customresourcedefinitions.apiextensions.k8s.io"].startswith(
        "/registry/apiextensions.k8s.io/custom"
    )
    assert "bindings" not in prefixes
    assert "subjectaccessreviews.authorization.k8s.io" not in prefixes


def test_same_objects_lists_resources_with_a_common_store() -> None:
    events = SCHEME.resource("", "v1", "events")
    assert events is not None
    assert {r.api_version for r in SCHEME.equivalent_resources(events)} == {"v1", "events.k8s.io/v1"}
    pods = SCHEME.resource("", "v1", "pods")
    assert pods is not None
    assert SCHEME.equivalent_resources(pods) == [pods]


@pytest.mark.parametrize(
    ("group", "version", "kind", "expected"),
    [
        ("", "v1", "Pod", core_v1.Pod),
        ("", "v1", "PodList", core_v1.PodList),
        ("", "v1", "Status", meta_v1.Status),
        ("apps", "v1", "Deployment", apps_v1.Deployment),
        ("apps", "v1", "DeleteOptions", meta_v1.DeleteOptions),
        ("meta.k8s.io", "v1", "Table", meta_v1.Table),
        ("meta.k8s.io", "v1beta1", "PartialObjectMetadata", meta_v1.PartialObjectMetadata),
        ("resource.k8s.io", "v1beta1", "ResourceClaim", resource_v1beta1.ResourceClaim),
        ("", "v1", "PodSpec", None),
        ("", "v2", "Pod", None),
        ("apps.example.com", "v1", "Deployment", None),
        ("example.com", "v1", "Pod", None),
        ("../x", "v1", "Pod", None),
    ],
)
def test_type_for(group: str, version: str, kind: str, expected: Any) -> None:
    assert type_for(GroupVersionKind(group=group, version=version, kind=kind)) is expected


def build_scheme(text: str) -> Scheme:
    return builtin_scheme(runtime_config.parse(text))


def test_runtime_config_by_version_and_resource() -> None:
    scheme = build_scheme("resource.k8s.io/v1beta1=true,batch/v1=false,apps/v1/daemonsets=false,v1/podtemplates=0")
    assert scheme.versions("resource.k8s.io") == ["v1", "v1beta1"]
    assert "batch" not in scheme.groups()
    assert [r.plural for r in scheme.resources("apps", "v1")] == [
        "controllerrevisions",
        "deployments",
        "replicasets",
        "statefulsets",
    ]
    assert scheme.resource("", "v1", "podtemplates") is None
    limited = build_scheme("resource.k8s.io/v1alpha3/devicetaintrules")
    assert [r.plural for r in limited.resources("resource.k8s.io", "v1alpha3")] == ["devicetaintrules"]


def test_runtime_config_by_level() -> None:
    assert build_scheme("api/beta=true").versions("resource.k8s.io") == ["v1", "v1beta2", "v1beta1"]
    assert build_scheme("api/all=true").versions("resource.k8s.io") == ["v1", "v1beta2", "v1beta1", "v1alpha3"]
    assert build_scheme("api/all=false,v1=true").groups() == [""]
    assert build_scheme("api/all=true,api/alpha=false").versions("certificates.k8s.io") == ["v1", "v1beta1"]
    assert "policy" not in build_scheme("api/ga=false,apps/v1=true").groups()


@pytest.mark.parametrize("text", ["nonsense/v1=true", "apps/v1/chairs", "apps/v1=maybe", "apps"])
def test_invalid_runtime_config_is_rejected(text: str) -> None:
    with pytest.raises(runtime_config.RuntimeConfigError):
        build_scheme(text)
