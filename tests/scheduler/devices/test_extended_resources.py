"""Extended resources as a claim for devices: which class serves which resource, and who asks for how many."""

from typing import Any

import pytest

from sampan.api.types.core_v1 import Container, Pod, PodSpec, ResourceRequirements
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.resource_v1 import DeviceClass, DeviceClassSpec
from sampan.scheduler.devices.device_inventory import PREFIX, classes_by_resource
from sampan.scheduler.devices.extended_resources import (
    PLACEHOLDER_NAME,
    extended_resource_claim,
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


def requested(*containers: Container, before: tuple[Container, ...] = ()) -> tuple[Any, Any]:
    """Requests with their counts, and what of them containers use."""
    classes = classes_by_resource([device_class("gpus", GPU), device_class("nics", NIC)])
    pod = Pod(
        metadata=ObjectMeta(name="p", namespace="x", uid="u"),
        spec=PodSpec(containers=list(containers), initContainers=list(before)),
    )
    special = extended_resource_claim(pod, [NIC, GPU], classes.get)
    requests = {
        request.name: (request.exactly.deviceClassName, request.exactly.count)
        for request in special.claim.spec.devices.requests or ()
        if request.exactly is not None
    }
    return requests, [
        (mapping.containerName, mapping.resourceName, mapping.requestName) for mapping in special.mappings
    ]


def test_every_container_asks_for_its_own() -> None:
    requests, mappings = requested(container("a", cpu="1", gpu="2"), container("b", gpu="1", nic="3", cpu="1"))
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
def test_who_ends_before_others_start_uses_what_they_have(amount: str, extra: int | None) -> None:
    before = (container("init", gpu=amount), container("sidecar", is_sidecar=True, gpu="1"))
    requests, mappings = requested(container("a", gpu="1"), container("b", gpu="2"), before=before)
    lasting = {f"container-{at}-request-0": ("gpus", count) for at, count in ((1, 1), (2, 1), (3, 2))}
    own = {} if extra is None else {"container-0-request-0": ("gpus", extra)}
    assert requests == {**own, **lasting}
    used = [request for name, _, request in mappings if name == "init"]
    expected = {"2": [1, 2], "4": [1, 2, 3], "6": [1, 2, 3, 0]}[amount]
    assert used == [f"container-{at}-request-0" for at in expected]


def test_who_ends_before_the_next_starts_shares_with_it() -> None:
    before = (container("one", gpu="1"), container("two", gpu="3"), container("three", gpu="2"))
    requests, mappings = requested(container("main", cpu="1"), before=before)
    assert requests == {"container-1-request-0": ("gpus", 3)}
    assert mappings == [(name, GPU, "container-1-request-0") for name in ("one", "two", "three")]


def test_the_claim_is_the_pod_s() -> None:
    pod = Pod(metadata=ObjectMeta(name="p", namespace="x", uid="u"), spec=PodSpec(containers=[]))
    claim = extended_resource_claim(pod, [], lambda name: None).claim
    assert is_extended_resource_claim(claim, pod)
    assert claim.metadata.name == PLACEHOLDER_NAME
    assert not is_extended_resource_claim(claim, Pod(metadata=ObjectMeta(name="p", namespace="x", uid="later")))


def test_which_class_serves() -> None:
    old, new = device_class("b", GPU, "2026-01-01T00:00:00Z"), device_class("c", GPU, "2026-01-02T00:00:00Z")
    same = device_class("a", GPU, "2026-01-02T00:00:00Z")
    assert classes_by_resource([old])[GPU] is old
    assert classes_by_resource([old, new])[GPU] is new, "the newest"
    assert classes_by_resource([old, new, same])[GPU] is same, "then by name"
    assert classes_by_resource([device_class("plain")]).keys() == {f"{PREFIX}plain"}
