"""The operator, with pods that run on a hollow node. Each test has a fork of the prepared cluster."""

import pytest
from website import reconcile

pytestmark = pytest.mark.sampan(level="nodes", clock="virtual")


@pytest.mark.parametrize("replicas", [0, 1, 2, 3, 5])
def test_replicas_become_ready(forked_cluster, namespace, kubernetes_client, website, replicas):
    forked_cluster.apply(website(replicas=replicas), namespace=namespace)
    reconcile(kubernetes_client, namespace, "site")
    forked_cluster.advance(seconds=5)
    reconcile(kubernetes_client, namespace, "site")
    forked_cluster.wait_for("website/site", "jsonpath={.status.phase}=Ready", namespace=namespace)
    assert len(forked_cluster.list("pods", namespace=namespace)) == replicas


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 0), (0, 2)])
def test_a_website_is_scaled(forked_cluster, namespace, kubernetes_client, website, before, after):
    for replicas in (before, after):
        forked_cluster.apply(website(replicas=replicas), namespace=namespace)
        reconcile(kubernetes_client, namespace, "site")
        forked_cluster.advance(minutes=1)
    assert len(forked_cluster.list("pods", namespace=namespace)) == after


@pytest.mark.parametrize("image", ["site:1.1", "site:2.0", "other:1.0"])
def test_an_image_is_rolled_out(forked_cluster, namespace, kubernetes_client, website, image):
    for tag in ("site:1.0", image):
        forked_cluster.apply(website(image=tag), namespace=namespace)
        reconcile(kubernetes_client, namespace, "site")
        forked_cluster.advance(minutes=1)
    images = {pod["spec"]["containers"][0]["image"] for pod in forked_cluster.list("pods", namespace=namespace)}
    assert images == {image}


def test_a_second_run_changes_nothing(forked_cluster, namespace, kubernetes_client, website):
    forked_cluster.apply(website(), namespace=namespace)
    reconcile(kubernetes_client, namespace, "site")
    forked_cluster.advance(seconds=5)
    reconcile(kubernetes_client, namespace, "site")
    before = forked_cluster.get("deployment/site", namespace=namespace)["metadata"]["resourceVersion"]
    reconcile(kubernetes_client, namespace, "site")
    assert forked_cluster.get("deployment/site", namespace=namespace)["metadata"]["resourceVersion"] == before


def test_everything_goes_with_the_website(forked_cluster, namespace, kubernetes_client, website):
    forked_cluster.apply(website(), namespace=namespace)
    reconcile(kubernetes_client, namespace, "site")
    forked_cluster.advance(seconds=5)
    forked_cluster.delete("website/site", namespace=namespace)
    forked_cluster.advance(minutes=2)
    for kind in ("deployments", "services", "replicasets", "pods"):
        assert forked_cluster.list(kind, namespace=namespace) == []


@pytest.mark.parametrize("number", range(3))
def test_a_fork_starts_with_the_prepared_objects(forked_cluster, number):
    """Each of these deletes the same object, in a fork of its own."""
    assert forked_cluster.get("website/shop")["spec"] == {"image": "shop:1.0", "replicas": 2}
    forked_cluster.delete("website/shop")
    forked_cluster.wait_for("website/shop", "delete")
