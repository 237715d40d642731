"""The greeter against a real API."""

from pathlib import Path

import pytest
from greeter import WANTS, greet
from kubernetes import client, config


@pytest.fixture
def core(sampan_kubeconfig: Path) -> client.CoreV1Api:
    config.load_kube_config(str(sampan_kubeconfig))
    return client.CoreV1Api()


def ask(core: client.CoreV1Api, namespace: str, name: str, greeting: str) -> None:
    metadata = client.V1ObjectMeta(name=name, labels={WANTS: greeting})
    core.create_namespaced_service_account(namespace, client.V1ServiceAccount(metadata=metadata))


def test_who_asks_is_greeted(core: client.CoreV1Api, sampan_namespace: str) -> None:
    ask(core, sampan_namespace, "ann", "Hello")
    assert greet(sampan_namespace) == ["ann"]
    assert core.read_namespaced_config_map("greeting-ann", sampan_namespace).data == {"text": "Hello, ann!"}


def test_who_does_not_ask_is_left_alone(core: client.CoreV1Api, sampan_namespace: str) -> None:
    """Every namespace has a service account called default, as in a real cluster."""
    assert greet(sampan_namespace) == []


def test_nobody_is_greeted_twice(core: client.CoreV1Api, sampan_namespace: str) -> None:
    ask(core, sampan_namespace, "ann", "Hello")
    assert greet(sampan_namespace) == ["ann"]
    assert greet(sampan_namespace) == []


def test_the_server_checks_what_it_is_given(core: client.CoreV1Api, sampan_namespace: str) -> None:
    with pytest.raises(client.ApiException) as refused:
        ask(core, sampan_namespace, "ann", "not a label value")
    assert refused.value.status == 422
