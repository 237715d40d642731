"""Which pods of a DaemonSet are created and deleted."""

from collections.abc import Sequence
from typing import Any

import pytest

from sampan.api.types.apps_v1 import DaemonSet
from sampan.api.types.core_v1 import Node, Pod
from sampan.controllers.workloads.daemonset.nodes import DaemonPlacement
from sampan.controllers.workloads.daemonset.rollout import manage, plan_rolling_update
from sampan.controllers.workloads.daemonset.view import DaemonPodChanges, DaemonSetView, compute_status, group_by_node
from tests.controllers.workloads.daemonset.objects import NOW, daemon_set, node, pod


def view(owner: DaemonSet, nodes: Sequence[Node], pods: Sequence[Pod]) -> DaemonSetView:
    placement = DaemonPlacement(owner.spec.template.spec)
    return DaemonSetView(
        daemon_set=owner, nodes=nodes, placement=placement, pods=group_by_node(pods), hash="new", now=NOW
    )


def changed_names(changes: DaemonPodChanges) -> tuple[list[str], list[str]]:
    return changes.nodes, [pod.metadata.name for pod in changes.pods]


def no_backoff(name: str) -> float:
    return 0.0


N1 = [node("n1")]
MANAGED: list[tuple[str, dict[str, Any], list[Node], list[Pod], tuple[list[str], list[str]]]] = [
    ("nodes without a pod", {}, [node("n1"), node("n2")], [pod("a", "n1")], (["n2"], [])),
    ("unbound pod counts", {}, N1, [pod("a", target="n1", phase="Pending")], ([], [])),
    ("waits for a terminating pod", {}, N1, [pod("a", "n1", is_deleted=True)], ([], [])),
    (
        "does not wait for a terminating failed pod",
        {},
        N1,
        [pod("a", "n1", phase="Failed", is_deleted=True)],
        (["n1"], []),
    ),
    ("failed", {}, N1, [pod("a", "n1", phase="Failed")], ([], ["a"])),
    ("succeeded", {}, N1, [pod("a", "n1", phase="Succeeded")], ([], ["a"])),
    ("oldest of several pods is kept", {}, N1, [pod("a", "n1"), pod("b", "n1", age_s=5)], ([], ["a"])),
    ("bound pod is kept before unbound pod", {}, N1, [pod("a", target="n1", age_s=9), pod("b", "n1")], ([], ["a"])),
    ("NoExecute taint", {}, [node("n1", taints=("a:NoExecute",))], [pod("a", "n1")], ([], ["a"])),
    ("NoSchedule taint keeps the pod", {}, [node("n1", taints=("a:NoSchedule",))], [pod("a", "n1")], ([], [])),
    ("NoSchedule taint, no pod", {}, [node("n1", taints=("a:NoSchedule",))], [], ([], [])),
    ("unbound pod of a deleted node", {}, [], [pod("a", target="n1"), pod("b", "n1")], ([], ["a"])),
    (
        "surge: old pod ready, new pod not ready",
        {"surge": 1},
        N1,
        [pod("a", "n1", hash="old"), pod("b", "n1", ready_for_s=None)],
        ([], []),
    ),
    ("surge: new pod ready", {"surge": 1}, N1, [pod("a", "n1", hash="old"), pod("b", "n1")], ([], ["a"])),
    (
        "surge: neither pod ready",
        {"surge": 1},
        N1,
        [pod("a", "n1", hash="old", ready_for_s=None), pod("b", "n1", ready_for_s=None)],
        ([], ["a"]),
    ),
    (
        "surge: more than two pods",
        {"surge": 1},
        N1,
        [pod("a", "n1", hash="old"), pod("b", "n1", ready_for_s=None), pod("c", "n1", ready_for_s=None)],
        ([], ["c"]),
    ),
    ("surge: does not wait for a terminating pod", {"surge": 1}, N1, [pod("a", "n1", is_deleted=True)], (["n1"], [])),
    (
        "surge: new pod not yet available",
        {"surge": 1, "min_ready": 50},
        N1,
        [pod("a", "n1", hash="old"), pod("b", "n1", ready_for_s=49)],
        ([], []),
    ),
]


@pytest.mark.parametrize(
    ("fields", "nodes", "pods", "expected"), [pytest.param(*case[1:], id=case[0]) for case in MANAGED]
)
def test_pods_to_create_and_delete(
    fields: dict[str, Any], nodes: list[Node], pods: list[Pod], expected: tuple[list[str], list[str]]
) -> None:
    assert changed_names(manage(view(daemon_set(**fields), nodes, pods), no_backoff)) == expected


def test_failed_pod_in_back_off_is_kept() -> None:
    failed = [pod("a", "n1", phase="Failed"), pod("b", "n2", phase="Failed")]
    changes = manage(view(daemon_set(), [node("n1"), node("n2")], failed), {"n1": 7.0, "n2": 3.0}.__getitem__)
    assert changed_names(changes) == ([], [])
    assert changes.again_s == 3.0


def old_pod(name: str, on: str, **more: Any) -> Pod:
    return pod(name, on, hash="old", **more)


N3 = [node("n1"), node("n2"), node("n3")]
NOT_READY: dict[str, Any] = {"ready_for_s": None}
UPDATES: list[tuple[str, dict[str, Any], list[Pod], tuple[list[str], list[str]]]] = [
    ("one at a time", {}, [old_pod("a", "n1"), old_pod("b", "n2"), old_pod("c", "n3")], ([], ["a"])),
    (
        "two at a time",
        {"unavailable": 2},
        [old_pod("a", "n1"), old_pod("b", "n2"), old_pod("c", "n3")],
        ([], ["a", "b"]),
    ),
    (
        "percentage, rounded up",
        {"unavailable": "34%"},
        [old_pod("a", "n1"), old_pod("b", "n2"), old_pod("c", "n3")],
        ([], ["a", "b"]),
    ),
    ("waits for the new pod", {}, [pod("a", "n1", **NOT_READY), old_pod("b", "n2"), old_pod("c", "n3")], ([], [])),
    (
        "waits for the terminating pod",
        {},
        [old_pod("a", "n1", is_deleted=True), old_pod("b", "n2"), old_pod("c", "n3")],
        ([], []),
    ),
    ("continues", {}, [pod("a", "n1"), old_pod("b", "n2"), old_pod("c", "n3")], ([], ["b"])),
    (
        "unready old pod is deleted beyond the limit",
        {},
        [pod("a", "n1", **NOT_READY), old_pod("b", "n2"), old_pod("c", "n3", **NOT_READY)],
        ([], ["c"]),
    ),
    ("node without a pod counts as unavailable", {}, [old_pod("a", "n1"), old_pod("b", "n2")], ([], [])),
    (
        "new pod not yet available",
        {"min_ready": 50},
        [pod("a", "n1", ready_for_s=49), old_pod("b", "n2"), old_pod("c", "n3")],
        ([], []),
    ),
    (
        "zero surge and zero unavailable mean one",
        {"unavailable": 0},
        [old_pod("a", "n1"), old_pod("b", "n2"), old_pod("c", "n3")],
        ([], ["a"]),
    ),
    ("complete", {}, [pod("a", "n1"), pod("b", "n2"), pod("c", "n3")], ([], [])),
    (
        "surge: one new pod",
        {"surge": 1, "unavailable": 0},
        [old_pod("a", "n1"), old_pod("b", "n2"), old_pod("c", "n3")],
        (["n1"], []),
    ),
    (
        "surge: one at a time",
        {"surge": 1, "unavailable": 0},
        [old_pod("a", "n1"), pod("x", "n1", **NOT_READY), old_pod("b", "n2"), old_pod("c", "n3")],
        ([], []),
    ),
    (
        "surge: old pod is deleted, next node gets a new pod",
        {"surge": 1, "unavailable": 0},
        [old_pod("a", "n1"), pod("x", "n1"), old_pod("b", "n2"), old_pod("c", "n3")],
        (["n2"], ["a"]),
    ),
    (
        "surge: unready old pod is replaced beyond the limit",
        {"surge": 1, "unavailable": 0},
        [old_pod("a", "n1"), pod("x", "n1", **NOT_READY), old_pod("b", "n2", **NOT_READY), old_pod("c", "n3")],
        (["n2"], []),
    ),
]


@pytest.mark.parametrize(("fields", "pods", "expected"), [pytest.param(*case[1:], id=case[0]) for case in UPDATES])
def test_rolling_update(fields: dict[str, Any], pods: list[Pod], expected: tuple[list[str], list[str]]) -> None:
    assert changed_names(plan_rolling_update(view(daemon_set(**fields), N3, pods))) == expected


@pytest.mark.parametrize(
    ("new_pods", "expected"),
    [([], (["n2"], [])), ([pod("x", "n2")], ([], ["a"])), ([pod("x", "n2", ready_for_s=None)], ([], []))],
    ids=["no new pod", "new pod available", "new pod not yet available"],
)
def test_surge_keeps_misscheduled_pod_until_the_new_pod_is_available(
    new_pods: list[Pod], expected: tuple[list[str], list[str]]
) -> None:
    """The DaemonSet no longer belongs on n1, which may keep its pod because its taint is NoSchedule."""
    nodes = [node("n1", taints=("a:NoSchedule",)), node("n2")]
    new_view = view(daemon_set(surge=1, unavailable=0), nodes, [old_pod("a", "n1"), *new_pods])
    missing = manage(new_view, no_backoff).nodes
    changes = plan_rolling_update(new_view)
    assert (missing + changes.nodes, changed_names(changes)[1]) == expected


def test_status_counts() -> None:
    nodes = [*N3, node("n4", taints=("a:NoSchedule",)), node("n5", taints=("a:NoSchedule",))]
    pods = [old_pod("a", "n1", ready_for_s=3), pod("b", "n2"), pod("d", "n4")]
    status = compute_status(view(daemon_set(min_ready=10, generation=3), nodes, pods), has_acted=True)
    assert (status.desiredNumberScheduled, status.currentNumberScheduled, status.numberMisscheduled) == (3, 2, 1)
    assert (status.numberReady, status.numberAvailable, status.numberUnavailable) == (2, 1, 2)
    assert (status.updatedNumberScheduled, status.observedGeneration) == (1, 3)
    assert compute_status(view(daemon_set(generation=3), nodes, pods), has_acted=False).observedGeneration == 0
