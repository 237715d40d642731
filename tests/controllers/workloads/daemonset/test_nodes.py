"""Which nodes are eligible for the pods of a DaemonSet, and what the controller adds to its pods."""

from typing import Any

import pytest

from sampan.api.types.core_v1 import Toleration
from sampan.controllers.workloads.daemonset.nodes import (
    GENERATION_ANNOTATION,
    GENERATION_LABEL,
    HASH_LABEL,
    DaemonPlacement,
    NodeEligibility,
    daemon_template,
    daemon_tolerations,
    is_updated,
    pin_to_node,
    target_node,
)
from tests.controllers.workloads.daemonset.objects import daemon_set, node, pod

YES, STAYS, NO = NodeEligibility(True, True), NodeEligibility(False, True), NodeEligibility(False, False)


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


def expression(operator: str, *values: str, key: str = "disk") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def field(operator: str, *values: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": list(values)}]}


CASES: list[tuple[str, dict[str, Any], dict[str, Any], NodeEligibility]] = [
    ("no constraints", {}, {}, YES),
    ("nodeName of the node", {"nodeName": "n"}, {}, YES),
    ("nodeName of another node", {"nodeName": "other"}, {}, NO),
    ("selector", {"nodeSelector": {"disk": "ssd"}}, {"labels": {"disk": "ssd", "x": "y"}}, YES),
    ("selector, other value", {"nodeSelector": {"disk": "ssd"}}, {"labels": {"disk": "hdd"}}, NO),
    ("selector, no label", {"nodeSelector": {"disk": "ssd"}}, {}, NO),
    ("in", affinity(expression("In", "ssd", "nvme")), {"labels": {"disk": "nvme"}}, YES),
    ("not in", affinity(expression("NotIn", "ssd")), {"labels": {"disk": "ssd"}}, NO),
    ("exists", affinity(expression("Exists")), {"labels": {"disk": ""}}, YES),
    ("does not exist", affinity(expression("DoesNotExist")), {"labels": {"disk": ""}}, NO),
    ("greater", affinity(expression("Gt", "3")), {"labels": {"disk": "4"}}, YES),
    ("less", affinity(expression("Lt", "3")), {"labels": {"disk": "4"}}, NO),
    ("one term matches", affinity(expression("In", "a"), expression("In", "b")), {"labels": {"disk": "b"}}, YES),
    ("term matches partly", affinity({**expression("In", "b"), **field("In", "other")}), {"labels": {"disk": "b"}}, NO),
    ("matchFields In", affinity(field("In", "n")), {}, YES),
    ("matchFields NotIn", affinity(field("NotIn", "n")), {}, NO),
    ("empty term matches nothing", affinity({}), {}, NO),
    ("no terms match nothing", affinity(), {}, NO),
    ("invalid term matches nothing", affinity(expression("Near", "x")), {}, NO),
    ("invalid term beside a valid term", affinity(expression("Near", "x"), expression("DoesNotExist")), {}, YES),
    ("NoSchedule taint", {}, {"taints": ("a=b:NoSchedule",)}, STAYS),
    ("NoExecute taint", {}, {"taints": ("a=b:NoExecute",)}, NO),
    ("PreferNoSchedule taint", {}, {"taints": ("a=b:PreferNoSchedule",)}, YES),
    ("tolerated", {"tolerations": [{"key": "a", "value": "b"}]}, {"taints": ("a=b:NoSchedule",)}, YES),
    (
        "toleration of another value",
        {"tolerations": [{"key": "a", "value": "c"}]},
        {"taints": ("a=b:NoSchedule",)},
        STAYS,
    ),
    (
        "toleration of another effect",
        {"tolerations": [{"key": "a", "value": "b", "effect": "NoExecute"}]},
        {"taints": ("a=b:NoSchedule",)},
        STAYS,
    ),
    ("toleration of everything", {"tolerations": [{"operator": "Exists"}]}, {"taints": ("a=b:NoExecute",)}, YES),
    (
        "toleration of any value",
        {"tolerations": [{"key": "a", "operator": "Exists"}]},
        {"taints": ("a=b:NoExecute",)},
        YES,
    ),
    ("not ready", {}, {"taints": ("node.kubernetes.io/not-ready:NoExecute",)}, YES),
    ("not ready, NoSchedule", {}, {"taints": ("node.kubernetes.io/not-ready:NoSchedule",)}, STAYS),
    ("unreachable", {}, {"taints": ("node.kubernetes.io/unreachable:NoExecute",)}, YES),
    ("cordoned", {}, {"taints": ("node.kubernetes.io/unschedulable:NoSchedule",)}, YES),
    ("disk pressure", {}, {"taints": ("node.kubernetes.io/disk-pressure:NoSchedule",)}, YES),
    ("memory pressure", {}, {"taints": ("node.kubernetes.io/memory-pressure:NoSchedule",)}, YES),
    ("pid pressure", {}, {"taints": ("node.kubernetes.io/pid-pressure:NoSchedule",)}, YES),
    ("network unavailable", {}, {"taints": ("node.kubernetes.io/network-unavailable:NoSchedule",)}, STAYS),
    (
        "network unavailable, host network",
        {"hostNetwork": True},
        {"taints": ("node.kubernetes.io/network-unavailable:NoSchedule",)},
        YES,
    ),
]


@pytest.mark.parametrize(("spec", "fields", "expected"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_node_eligibility(spec: dict[str, Any], fields: dict[str, Any], expected: NodeEligibility) -> None:
    placement = DaemonPlacement(daemon_set(spec=spec).spec.template.spec)
    new_node = node("n", **fields)
    assert placement.eligibility_of(new_node) == expected
    assert placement.eligibility_of(new_node) is placement.eligibility_of(new_node), "the result is cached"
    assert placement.eligibility_of(node("n", taints=("x:NoExecute",))).runs is (
        spec.get("tolerations") == [{"operator": "Exists"}]
    )


def test_existing_tolerations_are_not_duplicated() -> None:
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    tolerations = daemon_tolerations(daemon_set(spec={"tolerations": [own]}).spec.template.spec)
    assert tolerations[0] == Toleration(key="node.kubernetes.io/not-ready", operator="Exists", effect="NoExecute")
    assert len(tolerations) == 6


def test_pods_are_pinned_to_their_node() -> None:
    spec = affinity(expression("Exists")) | {"nodeSelector": {"a": "b"}}
    spec["affinity"]["podAffinity"] = {}
    template = daemon_template(daemon_set(spec=spec, annotations={GENERATION_ANNOTATION: "3"}), "abc")
    assert template.metadata.labels == {"app": "logs", HASH_LABEL: "abc", GENERATION_LABEL: "3"}
    pod_spec = pin_to_node(template.spec, "n1")
    assert pod_spec.affinity is not None
    assert pod_spec.affinity.podAffinity is not None
    assert target_node(pod("p", target="n1")) == "n1"
    new_pod = pod("p")
    new_pod.spec = pod_spec
    assert target_node(new_pod) == "n1"
    new_pod.spec = pin_to_node(template.spec, "n2")
    assert target_node(new_pod) == "n2", "the template is not changed"


@pytest.mark.parametrize(
    ("labels", "generation", "expected"),
    [
        ({HASH_LABEL: "h"}, None, True),
        ({HASH_LABEL: "x"}, None, False),
        ({HASH_LABEL: "x", GENERATION_LABEL: "2"}, 2, True),
        ({GENERATION_LABEL: "1"}, 2, False),
        ({}, None, False),
    ],
)
def test_updated_by_hash_or_generation(labels: dict[str, str], generation: int | None, expected: bool) -> None:
    new_pod = pod("p")
    new_pod.metadata.labels = labels
    assert is_updated(new_pod, "h", generation) is expected
