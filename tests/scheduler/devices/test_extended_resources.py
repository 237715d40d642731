"""Extended resources as a claim for devices: which class serves a resource, and the requests of containers."""

from typing import Any

import pytest

from sampan.api.types.core_v1 import Container, Pod, PodSpec, ResourceRequirements
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.resource_v1 import DeviceClass, DeviceClassSpec
from sampan.scheduler.devices.device_inventory import PREFIX, classes_by_resource
from sampan.scheduler.devices.extended_resources import (
    PLACEHOLDER_NAME,
    build_extended_resource_claim,
    is_extended_resource_claim,
)

GPU, NIC = "example.com/gpu", "example.com/nic"


def device_class(name: str, resource: str | None = None, created_at: str = "2026-01-01T00:00:00Z") -> DeviceClass:
    return DeviceClass(
        metadata=ObjectMeta(name=name, creationTimestamp=created_at),
        spec=DeviceClassSpec(extendedResourceName=resource),
    )


def container(name: str, *, is_sidecar: bool = False, **amounts: str) -> Container:
    names = {"gpu": GPU, "nic": NIC, "cpu": "cpu"}
    requests = {names[key]: amount for key, amount in amounts.items()}
    return Container(
        name=name,
        restartPolicy="Always" if is_sidecar else None,
        resources=ResourceRequirements(requests=requests),
    )


def build_requests(*containers: Container, init_containers: tuple[Container, ...] = ()) -> tuple[Any, Any]:
    """The requests with their classes and counts, and which container uses which request."""
    classes = classes_by_resource([device_class("gpus", GPU), device_class("nics", NIC)])
    pod = Pod(
        metadata=ObjectMeta(name="p", namespace="x", uid="u"),
        spec=PodSpec(containers=list(containers), initContainers=list(init_containers)),
    )
    resource_claim = build_extended_resource_claim(pod, [NIC, GPU], classes.get)
    requests = {
        request.name: (request.exactly.deviceClassName, request.exactly.count)
        for request in resource_claim.claim.spec.devices.requests or ()
        if request.exactly is not None
    }
    return requests, [
        (mapping.containerName, mapping.resourceName, mapping.requestName) for mapping in resource_claim.mappings
    ]


def test_each_container_has_its_own_requests() -> None:
    requests, mappings = build_requests(container("a", cpu="1", gpu="2"), container("b", gpu="1", nic="3", cpu="1"))
    assert requests == {
        "container-0-request-1": ("gpus", 2),
        "container-1-request-1": ("gpus", 1),
        "container-1-request-2": ("nics", 3),
    }
    assert mappings == [
        ("a", GPU, "container-0-request-1"),
        ("b", GPU, "container-1-request-1"),
        ("b", NIC, "container-1-request-2"),
    ]


@pytest.mark.parametrize(("amount", "extra"), [("2", None), ("4", None), ("6", 2)])
def test_init_container_reuses_devices_of_later_containers(amount: str, extra: int | None) -> None:
    init_containers = (container("init", gpu=amount), container("sidecar", is_sidecar=True, gpu="1"))
    requests, mappings = build_requests(
        container("a", gpu="1"), container("b", gpu="2"), init_containers=init_containers
    )
    lasting = {f"container-{at}-request-0": ("gpus", count) for at, count in ((1, 1), (2, 1), (3, 2))}
    own = {} if extra is None else {"container-0-request-0": ("gpus", extra)}
    assert requests == {**own, **lasting}
    used = [request for name, _, request in mappings if name == "init"]
    expected = {"2": [1, 2], "4": [1, 2, 3], "6": [1, 2, 3, 0]}[amount]
    assert used == [f"container-{at}-request-0" for at in expected]


def test_init_containers_share_devices_in_sequence() -> None:
    init_containers = (container("one", gpu="1"), container("two", gpu="3"), container("three", gpu="2"))
    requests, mappings = build_requests(container("main", cpu="1"), init_containers=init_containers)
    assert requests == {"container-1-request-0": ("gpus", 3)}
    assert mappings == [(name, GPU, "container-1-request-0") for name in ("one", "two", "three")]


def test_extended_resource_claim_belongs_to_its_pod() -> None:
    pod = Pod(metadata=ObjectMeta(name="p", namespace="x", uid="u"), spec=PodSpec(containers=[]))
    claim = build_extended_resource_claim(pod, [], lambda name: None).claim
    assert is_extended_resource_claim(claim, pod)
    assert claim.metadata.name == PLACEHOLDER_NAME
    assert not is_extended_resource_claim(claim, Pod(metadata=ObjectMeta(name="p", namespace="x", uid="later")))


def test_newest_class_serves_the_resource() -> None:
    old, new = device_class("b", GPU, "2026-01-01T00:00:00Z"), device_class("c", GPU, "2026-01-02T00:00:00Z")
    same = device_class("a", GPU, "2026-01-02T00:00:00Z")
    assert classes_by_resource([old])[GPU] is old
    assert classes_by_resource([old, new])[GPU] is new, "the newest"
    assert classes_by_resource([old, new, same])[GPU] is same, "then by name"
    assert classes_by_resource([device_class("plain")]).keys() == {f"{PREFIX}plain"}
