"""The operator at work, in a process of its own, on a cluster with hollow nodes where its pods become ready."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lightkube import ApiError, Client, codecs
from lightkube.generic_resource import create_namespaced_resource
from lightkube.resources.apiextensions_v1 import CustomResourceDefinition
from lightkube.resources.core_v1 import Event, Pod
from lightkube.types import PatchType

PROJECT = Path(__file__).parents[1]
Fleet = create_namespaced_resource("example.com", "v1", "Fleet", "fleets")


@pytest.fixture(scope="session")
def sampan_options(sampan_options: dict[str, Any]) -> dict[str, Any]:
    return sampan_options | {"nodes": 1}


@pytest.fixture
def client(sampan_kubeconfig: Path, sampan_namespace: str) -> Client:
    client = Client(namespace=sampan_namespace)
    for definition in codecs.load_all_yaml((PROJECT / "crd.yaml").read_text()):
        client.apply(definition, field_manager="tests")
    client.wait(CustomResourceDefinition, "fleets.example.com", for_conditions=["Established"])
    return client


@pytest.fixture(autouse=True)
def operator(client: Client, sampan_namespace: str) -> Iterator[None]:
    command = [sys.executable, "-m", "kopf", "run", "--standalone", "--namespace", sampan_namespace, "fleets.py"]
    with subprocess.Popen(command, cwd=PROJECT, env=os.environ.copy()) as process:
        yield
        process.terminate()


def eventually(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def pods(client: Client) -> dict[str, str]:
    return {pod.metadata.name: pod.status.phase for pod in client.list(Pod) if not pod.metadata.deletionTimestamp}


def fleet(boats: int) -> Any:
    return Fleet(metadata={"name": "north"}, spec={"boats": boats})


def test_each_boat_is_a_pod_that_runs(client: Client) -> None:
    client.create(fleet(3))
    eventually(lambda: pods(client) == {f"north-{number}": "Running" for number in range(3)})
    eventually(lambda: (client.get(Fleet, "north").status or {}).get("boats") == 3)
    eventually(lambda: any(event.reason == "Synced" for event in client.list(Event)))


def test_a_fleet_shrinks(client: Client) -> None:
    client.create(fleet(2))
    eventually(lambda: len(pods(client)) == 2)
    client.patch(Fleet, "north", {"spec": {"boats": 1}}, patch_type=PatchType.MERGE)
    eventually(lambda: list(pods(client)) == ["north-0"])


def test_the_pods_go_with_their_fleet(client: Client) -> None:
    client.create(fleet(2))
    eventually(lambda: len(pods(client)) == 2)
    client.delete(Fleet, "north")
    eventually(lambda: pods(client) == {})  # by garbage collection


def test_a_fleet_needs_a_number_of_boats(client: Client) -> None:
    with pytest.raises(ApiError, match="boats: Required value"):
        client.create(Fleet(metadata={"name": "empty"}, spec={}))
