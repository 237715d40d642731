"""An operator written with kopf runs in the process of the test, against a cluster with injected errors."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kopf
import pytest

from sampan.testing import Cluster

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: greetings.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: greetings, singular: greeting, kind: Greeting}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""
GREETING = """
apiVersion: example.com/v1
kind: Greeting
metadata: {generateName: ann-}
spec: {name: Ann}
"""

registry = kopf.OperatorRegistry()


@kopf.on.login(registry=registry)
async def login(**arguments: Any) -> kopf.ConnectionInfo | None:
    return kopf.login_with_kubeconfig(**arguments)


@kopf.on.create("example.com", "v1", "greetings", registry=registry)
async def greet(spec: kopf.Spec, patch: kopf.Patch, **_: Any) -> None:
    patch.status["text"] = f"Hello, {spec['name']}!"


@contextmanager
def running_operator(namespace: str) -> Iterator[None]:
    """Run the operator in a thread for the duration of a block; KUBECONFIG names its cluster."""
    ready, stop = threading.Event(), threading.Event()
    settings = kopf.OperatorSettings()
    settings.networking.error_backoffs = [0.05] * 20
    operator = kopf.operator(
        registry=registry, settings=settings, standalone=True, namespace=namespace, ready_flag=ready, stop_flag=stop
    )
    thread = threading.Thread(target=asyncio.run, args=(operator,))
    thread.start()
    try:
        assert ready.wait(60)
        yield
    finally:
        stop.set()
        thread.join(60)


@pytest.mark.filterwarnings("ignore")  # warnings of kopf and its client library
def test_operator_retries_after_injected_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    with Cluster(level="api") as original:
        original.apply(DEFINITION)
        with original.fork() as cluster, cluster.namespace() as namespace:
            kubeconfig: Path = cluster.kubeconfig_for(namespace)
            monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
            with running_operator(namespace):
                with cluster.fault(error=500, verb="patch", resource="greetings", count=2) as fault:
                    greetings = cluster.apply(GREETING, namespace=namespace)
                    cluster.wait_for(greetings, "jsonpath={.status.text}=Hello, Ann!", timeout_s=60)
                assert fault.hits == 2
