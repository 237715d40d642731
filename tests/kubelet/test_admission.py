"""Admission of pods by the kubelet."""

from typing import Any

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import Node, Pod
from sampan.kubelet.admission import admit, amounts_of, ports_of
from tests.input_cost import is_quick


def node(**fields: Any) -> Node:
    base = {
        "metadata": {"name": "n", "labels": {"zone": "a", "size": "5"}},
        "status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "3"}},
    }
    return json.from_value(base | fields, Node)


def pod(**spec: Any) -> Pod:
    return json.from_value({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]} | spec}, Pod)


def pod_requesting(**requests: str) -> Pod:
    named = {key.replace("__", "/").replace("_", "."): value for key, value in requests.items()}
    return pod(containers=[{"name": "c", "resources": {"requests": named}}])


def affinity(key: str, operator: str, *values: str, field: str = "matchExpressions") -> Pod:
    term = {field: [{"key": key, "operator": operator, "values": list(values)}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return pod(affinity={"nodeAffinity": required})


AFFINITY = ("NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector")
INSUFFICIENT = "Node didn't have enough resource: "


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (pod(), None),
        (pod_requesting(cpu="1500m"), None),
        (pod_requesting(cpu="1501m"), ("OutOfcpu", INSUFFICIENT + "cpu, requested: 1501, used: 500, capacity: 2000")),
        (
            pod_requesting(memory="2Gi"),
            ("OutOfmemory", INSUFFICIENT + "memory, requested: 2147483648, used: 0, capacity: 1073741824"),
        ),
        (pod_requesting(example_com__gpu="1"), None),
        (pod(nodeSelector={"zone": "a"}), None),
        (pod(nodeSelector={"zone": "b"}), AFFINITY),
        (affinity("zone", "In", "a", "b"), None),
        (affinity("zone", "NotIn", "a"), AFFINITY),
        (affinity("rack", "NotIn", "a"), None),
        (affinity("rack", "DoesNotExist"), None),
        (affinity("rack", "Exists"), AFFINITY),
        (affinity("size", "Gt", "4"), None),
        (affinity("size", "Lt", "4"), AFFINITY),
        (affinity("metadata.name", "In", "n", field="matchFields"), None),
        (affinity("metadata.name", "In", "m", field="matchFields"), AFFINITY),
        (
            pod(os={"name": "windows"}),
            ("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"),
        ),
    ],
)
def test_admission(manifest: Pod, expected: tuple[str, str] | None) -> None:
    failure = admit(manifest, node(), amounts_of(manifest), {"cpu": 500}, 1)
    assert (failure and (failure.reason, failure.message)) == expected


def test_too_many_pods() -> None:
    failure = admit(pod(), node(), {}, {}, 3)
    assert failure is not None
    assert (failure.reason, failure.message) == ("OutOfpods", INSUFFICIENT + "pods, requested: 1, used: 3, capacity: 3")


def test_host_port_conflicts_are_rejected() -> None:
    first = pod(containers=[{"name": "c", "ports": [{"containerPort": 1, "hostPort": 80}]}])
    ports = [{"containerPort": 2, "hostPort": 80, "hostIP": "127.0.0.1"}]
    second = pod(containers=[{"name": "c", "ports": ports}])
    failure = admit(second, node(), {}, {}, 1, ports_of(first))
    assert failure is not None
    assert failure.reason == "NodePorts"
    assert admit(second, node(), {}, {}, 1, ()) is None


@pytest.mark.parametrize(
    ("toleration", "is_admitted"),
    [
        (None, False),
        ({"operator": "Exists"}, True),
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "value": "w"}, False),
        ({"key": "k", "operator": "Exists", "effect": "NoSchedule"}, False),
    ],
)
def test_no_execute_taints_must_be_tolerated(toleration: dict[str, str] | None, is_admitted: bool) -> None:
    taints = [{"key": "k", "value": "v", "effect": "NoExecute"}, {"key": "other", "effect": "NoSchedule"}]
    manifest = pod(tolerations=[toleration] if toleration else [])
    failure = admit(manifest, node(spec={"taints": taints}), {}, {}, 0)
    assert (failure is None) == is_admitted
    assert failure is None or failure.reason == "TaintToleration"


def test_cost_of_host_ports_is_not_a_product() -> None:
    ports = [{"containerPort": 80, "hostPort": number + 1} for number in range(20_000)]
    manifest = pod(containers=[{"name": "c", "ports": ports}])
    held = [("10.0.0.1", "TCP", 20_001 + number) for number in range(20_000)]
    assert is_quick(lambda: admit(manifest, node(), {}, {}, 0, held), 1.0)  # comparing all pairs takes a minute
    failure = admit(manifest, node(), {}, {}, 0, [("10.0.0.1", "TCP", 20_000)])
    assert failure is not None
    assert failure.reason == "NodePorts"
