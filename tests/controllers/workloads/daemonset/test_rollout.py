"""Which pods of a DaemonSet are created and deleted."""

from collections.abc import Sequence
from typing import Any

import pytest

from sampan.api.types.apps_v1 import DaemonSet
from sampan.api.types.core_v1 import Node, Pod
from sampan.controllers.workloads.daemonset.nodes import Placement
from sampan.controllers.workloads.daemonset.rollout import manage, rolling_update
from sampan.controllers.workloads.daemonset.view import DaemonPodChanges, DaemonSetView, by_node, counted
from tests.controllers.workloads.daemonset.objects import NOW, daemon_set, node, pod


def view(owner: DaemonSet, nodes: Sequence[Node], pods: Sequence[Pod]) -> DaemonSetView:
    placement = Placement(owner.spec.template.spec)
    return DaemonSetView(daemon_set=owner, nodes=nodes, placement=placement, pods=by_node(pods), hash="new", now=NOW)


def changed_names(changes: DaemonPodChanges) -> tuple[list[str], list[str]]:
    return changes.nodes, [pod.metadata.name for pod in changes.pods]


def no_hold(name: str) -> float:
    return 0.0


N1 = [node("n1")]
MANAGED: list[tuple[str, dict[str, Any], list[Node], list[Pod], tuple[list[str], list[str]]]] = [
    ("nodes without a pod", {}, [node("n1"), node("n2")], [pod("a", "n1")], (["n2"], [])),
    ("a pod that waits for the scheduler counts", {}, N1, [pod("a", meant_for="n1", phase="Pending")], ([], [])),
    ("a pod that leaves is waited for", {}, N1, [pod("a", "n1", is_leaving=True)], ([], [])),
    ("one that ended and leaves is not", {}, N1, [pod("a", "n1", phase="Failed", is_leaving=True)], (["n1"], [])),
    ("failed", {}, N1, [pod("a", "n1", phase="Failed")], ([], ["a"])),
    ("succeeded", {}, N1, [pod("a", "n1", phase="Succeeded")], ([], ["a"])),
    ("the oldest of several stays", {}, N1, [pod("a", "n1"), pod("b", "n1", age_s=5)], ([], ["a"])),
    ("bound ones before others", {}, N1, [pod("a", meant_for="n1", age_s=9), pod("b", "n1")], ([], ["a"])),
    ("not its node any more", {}, [node("n1", taints=("a:NoExecute",))], [pod("a", "n1")], ([], ["a"])),
    ("not for new ones", {}, [node("n1", taints=("a:NoSchedule",))], [pod("a", "n1")], ([], [])),
    ("none where none may start", {}, [node("n1", taints=("a:NoSchedule",))], [], ([], [])),
    ("unbound, of a node that is gone", {}, [], [pod("a", meant_for="n1"), pod("b", "n1")], ([], ["a"])),
    (
        "surge: the old one is ready, the new one not",
        {"surge": 1},
        N1,
        [pod("a", "n1", hash="old"), pod("b", "n1", ready_for_s=None)],
        ([], []),
    ),
    ("surge: the new one is ready", {"surge": 1}, N1, [pod("a", "n1", hash="old"), pod("b", "n1")], ([], ["a"])),
    (
        "surge: neither is ready",
        {"surge": 1},
        N1,
        [pod("a", "n1", hash="old", ready_for_s=None), pod("b", "n1", ready_for_s=None)],
        ([], ["a"]),
    ),
    (
        "surge: more than two",
        {"surge": 1},
        N1,
        [pod("a", "n1", hash="old"), pod("b", "n1", ready_for_s=None), pod("c", "n1", ready_for_s=None)],
        ([], ["c"]),
    ),
    ("surge: does not wait for what leaves", {"surge": 1}, N1, [pod("a", "n1", is_leaving=True)], (["n1"], [])),
    (
        "surge: not yet available",
        {"surge": 1, "min_ready": 50},
        N1,
        [pod("a", "n1", hash="old"), pod("b", "n1", ready_for_s=49)],
        ([], []),
    ),
]


@pytest.mark.parametrize(
    ("fields", "nodes", "pods", "expected"), [pytest.param(*case[1:], id=case[0]) for case in MANAGED]
)
def test_one_on_each_node(
    fields: dict[str, Any], nodes: list[Node], pods: list[Pod], expected: tuple[list[str], list[str]]
) -> None:
    assert changed_names(manage(view(daemon_set(**fields), nodes, pods), no_hold)) == expected


def test_a_failed_pod_that_is_held_is_left_alone() -> None:
    failed = [pod("a", "n1", phase="Failed"), pod("b", "n2", phase="Failed")]
    changes = manage(view(daemon_set(), [node("n1"), node("n2")], failed), {"n1": 7.0, "n2": 3.0}.__getitem__)
    assert changed_names(changes) == ([], [])
    assert changes.again_s == 3.0


def old(name: str, on: str, **more: Any) -> Pod:
    return pod(name, on, hash="old", **more)


N3 = [node("n1"), node("n2"), node("n3")]
SICK: dict[str, Any] = {"ready_for_s": None}
UPDATES: list[tuple[str, dict[str, Any], list[Pod], tuple[list[str], list[str]]]] = [
    ("one at a time", {}, [old("a", "n1"), old("b", "n2"), old("c", "n3")], ([], ["a"])),
    ("two at a time", {"unavailable": 2}, [old("a", "n1"), old("b", "n2"), old("c", "n3")], ([], ["a", "b"])),
    (
        "a part of them, rounded up",
        {"unavailable": "34%"},
        [old("a", "n1"), old("b", "n2"), old("c", "n3")],
        ([], ["a", "b"]),
    ),
    ("waits for the new one", {}, [pod("a", "n1", **SICK), old("b", "n2"), old("c", "n3")], ([], [])),
    ("waits for the one that leaves", {}, [old("a", "n1", is_leaving=True), old("b", "n2"), old("c", "n3")], ([], [])),
    ("goes on", {}, [pod("a", "n1"), old("b", "n2"), old("c", "n3")], ([], ["b"])),
    (
        "a sick old one goes whatever the limit",
        {},
        [pod("a", "n1", **SICK), old("b", "n2"), old("c", "n3", **SICK)],
        ([], ["c"]),
    ),
    ("a node without a pod counts", {}, [old("a", "n1"), old("b", "n2")], ([], [])),
    (
        "not available for long enough",
        {"min_ready": 50},
        [pod("a", "n1", ready_for_s=49), old("b", "n2"), old("c", "n3")],
        ([], []),
    ),
    (
        "neither surge nor unavailability means one",
        {"unavailable": 0},
        [old("a", "n1"), old("b", "n2"), old("c", "n3")],
        ([], ["a"]),
    ),
    ("over", {}, [pod("a", "n1"), pod("b", "n2"), pod("c", "n3")], ([], [])),
    (
        "surge: one new one",
        {"surge": 1, "unavailable": 0},
        [old("a", "n1"), old("b", "n2"), old("c", "n3")],
        (["n1"], []),
    ),
    (
        "surge: one at a time",
        {"surge": 1, "unavailable": 0},
        [old("a", "n1"), pod("x", "n1", **SICK), old("b", "n2"), old("c", "n3")],
        ([], []),
    ),
    (
        "surge: the old one goes, another comes",
        {"surge": 1, "unavailable": 0},
        [old("a", "n1"), pod("x", "n1"), old("b", "n2"), old("c", "n3")],
        (["n2"], ["a"]),
    ),
    (
        "surge: a sick old one is replaced whatever the limit",
        {"surge": 1, "unavailable": 0},
        [old("a", "n1"), pod("x", "n1", **SICK), old("b", "n2", **SICK), old("c", "n3")],
        (["n2"], []),
    ),
]


@pytest.mark.parametrize(("fields", "pods", "expected"), [pytest.param(*case[1:], id=case[0]) for case in UPDATES])
def test_updates(fields: dict[str, Any], pods: list[Pod], expected: tuple[list[str], list[str]]) -> None:
    assert changed_names(rolling_update(view(daemon_set(**fields), N3, pods))) == expected


@pytest.mark.parametrize(
    ("elsewhere", "expected"),
    [([], (["n2"], [])), ([pod("x", "n2")], ([], ["a"])), ([pod("x", "n2", ready_for_s=None)], ([], []))],
    ids=["nothing elsewhere", "available elsewhere", "not yet available elsewhere"],
)
def test_surge_leaves_a_node_only_when_there_is_as_much_elsewhere(
    elsewhere: list[Pod], expected: tuple[list[str], list[str]]
) -> None:
    """The node selector of the set moved from n1 to n2; n1 may keep its pod, by taint."""
    nodes = [node("n1", taints=("a:NoSchedule",)), node("n2")]
    new_view = view(daemon_set(surge=1, unavailable=0), nodes, [old("a", "n1"), *elsewhere])
    missing = manage(new_view, no_hold).nodes
    changes = rolling_update(new_view)
    assert (missing + changes.nodes, changed_names(changes)[1]) == expected


def test_status() -> None:
    nodes = [*N3, node("n4", taints=("a:NoSchedule",)), node("n5", taints=("a:NoSchedule",))]
    pods = [old("a", "n1", ready_for_s=3), pod("b", "n2"), pod("d", "n4")]
    status = counted(view(daemon_set(min_ready=10, generation=3), nodes, pods), has_acted=True)
    assert (status.desiredNumberScheduled, status.currentNumberScheduled, status.numberMisscheduled) == (3, 2, 1)
    assert (status.numberReady, status.numberAvailable, status.numberUnavailable) == (2, 1, 2)
    assert (status.updatedNumberScheduled, status.observedGeneration) == (1, 3)
    assert counted(view(daemon_set(generation=3), nodes, pods), has_acted=False).observedGeneration == 0
