"""Conformance tests of sig-api-machinery for discovery. The first paragraph of a docstring is the official test
name."""

import json

from sampan.api.kubernetes_version import MAJOR, MINOR
from sampan.machinery.client.discovery import Discovery
from sampan.testing import Cluster
from tests.e2e.conformance.api import Api, Value
from tests.e2e.conformance.operations import check_discovery

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
RESOURCES = {
    ("", "v1"): "namespaces",
    ("admissionregistration.k8s.io", "v1"): "validatingwebhookconfigurations",
    ("apiextensions.k8s.io", "v1"): "customresourcedefinitions",
    ("apiregistration.k8s.io", "v1"): "apiservices",
    ("apps", "v1"): "deployments",
    ("authentication.k8s.io", "v1"): "tokenreviews",
    ("authorization.k8s.io", "v1"): "selfsubjectaccessreviews",
    ("autoscaling", "v1"): "horizontalpodautoscalers",
    ("autoscaling", "v2"): "horizontalpodautoscalers",
    ("batch", "v1"): "jobs",
    ("certificates.k8s.io", "v1"): "certificatesigningrequests",
    ("coordination.k8s.io", "v1"): "leases",
    ("discovery.k8s.io", "v1"): "endpointslices",
    ("events.k8s.io", "v1"): "events",
    ("networking.k8s.io", "v1"): "ingresses",
    ("node.k8s.io", "v1"): "runtimeclasses",
    ("policy", "v1"): "poddisruptionbudgets",
    ("scheduling.k8s.io", "v1"): "priorityclasses",
    ("storage.k8s.io", "v1"): "csinodes",
}


def test_preferred_versions(api: Api) -> None:
    """[sig-api-machinery] Discovery should validate PreferredVersion for each APIGroup [Conformance]"""
    groups = api.get("/apis/")["groups"]
    assert groups
    for listed in groups:
        group = api.get(f"/apis/{listed['name']}/")
        assert group["preferredVersion"] in group["versions"]
        assert group["preferredVersion"]["groupVersion"].startswith(f"{listed['name']}/")


def test_a_resource_of_each_group(api: Api) -> None:
    """[sig-api-machinery] Discovery should locate the groupVersion and a resource within each APIGroup
    [Conformance]"""
    for (group, version), resource in RESOURCES.items():
        resource_list = api.get(f"/apis/{group}/{version}" if group else f"/api/{version}")
        assert resource_list["groupVersion"] == f"{group}/{version}".lstrip("/")
        assert resource in [row["name"] for row in resource_list["resources"]]
    for listed in api.get("/apis")["groups"]:
        for version in listed["versions"]:
            resource_list = api.get(f"/apis/{version['groupVersion']}")
            assert resource_list["groupVersion"] == version["groupVersion"]
            assert resource_list["resources"]


def list_resources(document: Value) -> set[tuple[str, str, str]]:
    """Return group, version and name of each resource."""
    return {
        (group["metadata"].get("name", ""), version["version"], row["resource"])
        for group in document["items"]
        for version in group["versions"]
        for row in version["resources"]
    }


def test_aggregated_discovery_accept_headers(api: Api) -> None:
    """[sig-api-machinery] AggregatedDiscovery should support raw aggregated discovery endpoint Accept headers
    [Conformance]"""
    resources: set[tuple[str, str, str]] = set()
    for path in ("/api", "/apis"):
        status, headers, body = api.send_raw("GET", path, headers={"Accept": AGGREGATED})
        document = json.loads(body)
        assert (status, document["kind"]) == (200, "APIGroupDiscoveryList")
        assert headers.get_content_type() == "application/json"
        assert "as=APIGroupDiscoveryList" in headers["Content-Type"]
        resources |= list_resources(document)
    assert {(*group_version, resource) for group_version, resource in RESOURCES.items()} <= resources


def test_aggregated_discovery_client(sampan_cluster: Cluster) -> None:
    """[sig-api-machinery] AggregatedDiscovery should support aggregated discovery interface [Conformance]"""
    rows, failure = sampan_cluster.run(Discovery(sampan_cluster.client).discover_served())
    assert failure == ""
    resources = {(row.group, row.version, row.plural) for row in rows}
    assert {(*group_version, resource) for group_version, resource in RESOURCES.items()} <= resources


def test_version(api: Api) -> None:
    """[sig-api-machinery] server version should find the server version [Conformance]"""
    version = api.get("/version")
    assert (version["major"], version["minor"]) == (MAJOR, MINOR)


def test_table_of_a_review_is_not_acceptable(api: Api) -> None:
    """[sig-api-machinery] Servers with support for Table transformation should return a 406 for a backend which does
    not implement metadata [Conformance]"""
    spec = {"nonResourceAttributes": {"path": "/", "verb": "get"}}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
    headers = {"Content-Type": "application/json", "Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    status, _, body = api.send_raw("POST", path, json.dumps(review).encode(), headers)
    assert status == 406
    assert (json.loads(body)["kind"], json.loads(body)["code"]) == ("Status", 406)


def test_custom_resource_definitions_are_discovered(api: Api) -> None:
    """[sig-api-machinery] CustomResourceDefinition resources [Privileged:ClusterAdmin] should include custom resource
    definition resources in discovery documents [Conformance]"""
    check_discovery(api, "apiextensions.k8s.io", "customresourcedefinitions", ("status",))
