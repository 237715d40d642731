"""The operator copes with an API server that fails."""

import pytest
from kubernetes.client.exceptions import ApiException
from website import reconcile


@pytest.mark.parametrize("status", [409, 500])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_few_errors_are_retried(cluster, namespace, kubernetes_client, website, status, count):
    cluster.apply(website(), namespace=namespace)
    with cluster.fault(error=status, verb="create", resource="services", namespace=namespace, count=count) as fault:
        reconcile(kubernetes_client, namespace, "site")
    assert fault.hits == (1 if status == 409 else count)  # a conflict of a create means that the service exists


def test_an_error_that_persists_is_raised(cluster, namespace, kubernetes_client, website):
    cluster.apply(website(), namespace=namespace)
    with cluster.fault(error=500, resource="deployments", namespace=namespace), pytest.raises(ApiException) as raised:
        reconcile(kubernetes_client, namespace, "site")
    assert raised.value.status == 500


def test_a_slow_server(cluster, namespace, kubernetes_client, website):
    cluster.apply(website(), namespace=namespace)
    with cluster.fault(latency_s=0.05, verb="create", namespace=namespace) as fault:
        reconcile(kubernetes_client, namespace, "site")
    assert fault.hits == 2
