"""The definition of Website rejects what it should. The tests share one cluster, and each has its own namespace."""

import pytest

from sampan.machinery.errors import ApiError

INVALID = {
    "no image": {"replicas": 1},
    "empty image": {"image": ""},
    "negative replicas": {"image": "a:1", "replicas": -1},
    "too many replicas": {"image": "a:1", "replicas": 11},
    "latest of a registry": {"image": "registry.example.com/a:latest"},
    "latest": {"image": "a:latest"},
}


@pytest.mark.parametrize("spec", INVALID.values(), ids=INVALID)
def test_an_invalid_spec_is_rejected(cluster, namespace, spec):
    website = {"apiVersion": "example.com/v1", "kind": "Website", "metadata": {"name": "bad"}, "spec": spec}
    with pytest.raises(ApiError) as rejected:
        cluster.apply(website, namespace=namespace)
    assert rejected.value.code == 422
    assert cluster.list("websites", namespace=namespace) == []


@pytest.mark.parametrize("replicas", [0, 1, 2, 10])
def test_a_valid_spec_is_stored(cluster, namespace, website, replicas):
    cluster.apply(website(replicas=replicas), namespace=namespace)
    assert cluster.get("website/site", namespace=namespace)["spec"]["replicas"] == replicas


def test_replicas_have_a_default(cluster, namespace):
    spec = {"image": "a:1"}
    cluster.apply(
        {"apiVersion": "example.com/v1", "kind": "Website", "metadata": {"name": "site"}, "spec": spec},
        namespace=namespace,
    )
    assert cluster.get("web/site", namespace=namespace)["spec"]["replicas"] == 1


@pytest.mark.parametrize("name", ["websites", "website", "web", "websites.example.com"])
def test_names_of_the_resource(cluster, name):
    assert [site["metadata"]["name"] for site in cluster.list(name)] == ["shop"]
