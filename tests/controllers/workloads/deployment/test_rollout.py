"""New sizes of the ReplicaSets of a deployment: the steps of a rolling update, and scaling in proportion."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.semantics.workloads import desired_replicas
from sampan.api.types.apps_v1 import ReplicaSet
from sampan.controllers.workloads.deployment.replicasets import (
    DESIRED_REPLICAS_ANNOTATION,
    MAX_REPLICAS_ANNOTATION,
    ReplicaSets,
    max_replicas,
    max_unavailable,
    total_available,
    total_replicas,
)
from sampan.controllers.workloads.deployment.rollout import (
    has_old_pods,
    is_saturated,
    is_scaling,
    new_replica_count,
    plan_rolling_update,
    scale_down_all,
    scale_proportionally,
)
from tests.controllers.ownership.objects import pod
from tests.controllers.workloads.deployment.objects import deployment, replica_set


def sizes(replica_sets: Sequence[ReplicaSet]) -> dict[str, int]:
    return {rs.metadata.uid: desired_replicas(rs) for rs in replica_sets}


@pytest.mark.parametrize(
    ("replicas", "surge", "present", "all_sizes", "expected"),
    [(10, 0, 0, 10, 0), (10, 2, 0, 10, 2), (10, 0, 5, 8, 7), (10, 5, 8, 12, 10), (1, 1, 0, 0, 1), (10, 2, 0, 13, 0)],
)
def test_new_replicaset_grows_up_to_max_surge(
    replicas: int, surge: int, present: int, all_sizes: int, expected: int
) -> None:
    assert new_replica_count(deployment(replicas, surge=surge, unavailable=1), present, all_sizes) == expected


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        pytest.param((0, 0), [(10, 10)], {"new": 3}, id="new ReplicaSet grows by the surge"),
        pytest.param((3, 0), [(10, 10)], {"old0": 8}, id="old ReplicaSet shrinks by maxUnavailable"),
        pytest.param((3, 3), [(8, 8)], {"new": 5}, id="new ReplicaSet grows again"),
        pytest.param((5, 3), [(8, 8)], {"old0": 5}, id="available new pods replace old pods"),
        pytest.param((5, 0), [(8, 8)], {}, id="unavailable new pods stop the update"),
        pytest.param((5, 0), [(8, 7)], {}, id="unavailable new pods stop the update though an old pod failed"),
        pytest.param((3, 0), [(10, 6)], {"old0": 8}, id="unhealthy old pods are deleted first"),
        pytest.param((3, 0), [(5, 3), (5, 5)], {"old0": 3}, id="unhealthy pods of any old ReplicaSet"),
        pytest.param((10, 10), [(1, 1), (2, 2)], {"old0": 0, "old1": 0}, id="last old pods"),
        pytest.param((10, 10), [], {}, id="complete"),
        pytest.param((12, 12), [], {"new": 10}, id="new ReplicaSet too large"),
    ],
)
def test_a_step_of_a_rolling_update(new: tuple[int, int], old: list[tuple[int, int]], expected: dict[str, int]) -> None:
    older = [replica_set(f"old{at}", count, available=available) for at, (count, available) in enumerate(old)]
    replica_sets = ReplicaSets(replica_set("new", new[0], available=new[1]), older)
    assert sizes(plan_rolling_update(deployment(10, surge=3, unavailable=2), replica_sets)) == expected


@given(
    replicas=st.integers(1, 20),
    surge=st.integers(0, 5),
    unavailable=st.integers(0, 5),
    old=st.lists(st.integers(0, 20), max_size=3),
)
def test_rolling_update_ends_within_its_limits(replicas: int, surge: int, unavailable: int, old: list[int]) -> None:
    """New pods are available at the next step; the update ends, and never has too many or too few pods."""
    new_deployment = deployment(replicas, surge=surge, unavailable=unavailable)
    present = ReplicaSets(replica_set("new", 0), [replica_set(f"old{at}", count) for at, count in enumerate(old)])
    start = total_replicas(present.all)
    most, least = max(max_replicas(new_deployment), start), min(replicas - max_unavailable(new_deployment), start)
    for _ in range(200):
        changes = {rs.metadata.uid: rs for rs in plan_rolling_update(new_deployment, present)}
        if not changes:
            break
        after = [changes.get(rs.metadata.uid, rs) for rs in present.all]
        assert total_replicas(after) <= most
        kept = sum(min(desired_replicas(rs), rs.status.availableReplicas) for rs in after)
        assert kept >= min(least, total_available(present.all))
        settled = [replica_set(rs.metadata.uid, desired_replicas(rs)) for rs in after]
        present = ReplicaSets(settled[-1], settled[:-1])
    assert present.new is not None
    assert desired_replicas(present.new) == replicas
    assert total_replicas(present.old) == 0


def test_recreate_scales_all_old_replicasets_down_first() -> None:
    new_deployment = deployment(5, strategy="Recreate")
    replica_sets = ReplicaSets(None, [replica_set("a", 0, pods=0), replica_set("b", 3)])
    assert sizes(scale_down_all(new_deployment, replica_sets)) == {"b": 0}
    assert has_old_pods(replica_sets, [])
    gone = ReplicaSets(None, [replica_set("a", 0, pods=0)])
    assert not has_old_pods(gone, [])
    assert has_old_pods(gone, [pod("p")])
    assert not has_old_pods(gone, [pod("p", phase="Succeeded"), pod("q", phase="Failed")])


def sets(*counts: int, most: int) -> ReplicaSets:
    """ReplicaSets of these sizes: the new one, then the old ones from the youngest to the oldest."""
    new = replica_set("new", counts[0], most=most, age_s=1)
    old = [replica_set(f"old{at}", count, most=most, age_s=9 + at) for at, count in enumerate(counts[1:])]
    return ReplicaSets(new, sorted(old, key=lambda rs: rs.metadata.creationTimestamp or ""))


@pytest.mark.parametrize(
    ("replicas", "surge", "counts", "most", "expected"),
    [
        pytest.param(12, 0, (10,), 10, {"new": 12}, id="only ReplicaSet, up"),
        pytest.param(5, 0, (10,), 10, {"new": 5}, id="only ReplicaSet, down"),
        pytest.param(10, 0, (0, 0), 10, {"new": 10}, id="no pods: newest ReplicaSet"),
        pytest.param(12, 0, (5, 5), 10, {"new": 6, "old0": 6}, id="halves up"),
        pytest.param(6, 0, (5, 5), 10, {"new": 3, "old0": 3}, id="halves down"),
        pytest.param(20, 0, (2, 3, 5), 10, {"new": 4, "old0": 6, "old1": 10}, id="double"),
        pytest.param(5, 0, (2, 3, 5), 10, {"new": 1, "old0": 2, "old1": 2}, id="half"),
        pytest.param(0, 0, (3, 7), 10, {"new": 0, "old0": 0}, id="to zero"),
        pytest.param(50, 2, (5, 5, 2), 12, {"new": 22, "old0": 22, "old1": 8}, id="with surge"),
    ],
)
def test_replicasets_are_scaled_in_proportion_to_their_sizes(
    replicas: int, surge: int, counts: tuple[int, ...], most: int, expected: dict[str, int]
) -> None:
    replica_sets = scale_proportionally(deployment(replicas, surge=surge, unavailable=1), sets(*counts, most=most))
    assert sizes(replica_sets) == expected
    assert {
        (rs.metadata.annotations[DESIRED_REPLICAS_ANNOTATION], rs.metadata.annotations[MAX_REPLICAS_ANNOTATION])
        for rs in replica_sets
    } == {(str(replicas), str(replicas + surge))}


@given(
    replicas=st.integers(0, 60),
    surge=st.integers(0, 5),
    counts=st.lists(st.integers(1, 30), min_size=2, max_size=5),
    before=st.integers(1, 60),
)
def test_proportional_sizes_add_up_to_the_allowed_number(
    replicas: int, surge: int, counts: list[int], before: int
) -> None:
    new_deployment = deployment(replicas, surge=surge, unavailable=1)
    after = sizes(scale_proportionally(new_deployment, sets(*counts, most=before)))
    assert all(count >= 0 for count in after.values())
    allowed = max_replicas(new_deployment) if replicas else 0
    first = next(iter(after.values()))
    assert sum(after.values()) == allowed or (first == 0 and sum(after.values()) > allowed)


def test_old_replicasets_are_scaled_to_zero_once_the_new_one_is_saturated() -> None:
    new = replica_set("new", 10, desired=10)
    replica_sets = scale_proportionally(
        deployment(10), ReplicaSets(new, [replica_set("old", 3), replica_set("gone", 0)])
    )
    assert sizes(replica_sets) == {"old": 0}
    assert is_saturated(deployment(10), new)
    assert not is_saturated(deployment(10), replica_set("new", 10, desired=10, available=9))
    assert not is_saturated(deployment(10), replica_set("new", 10))
    assert not is_saturated(deployment(10), None)


def test_recreate_is_not_scaled_proportionally() -> None:
    assert scale_proportionally(deployment(9, strategy="Recreate"), sets(2, 3, most=5)) == ()


@pytest.mark.parametrize(("desired", "expected"), [(10, False), (9, True), (None, False)])
def test_scaling_is_a_change_of_the_desired_replicas_annotation(desired: int | None, expected: bool) -> None:
    assert is_scaling(deployment(10), ReplicaSets(replica_set("new", 3, desired=desired), [])) is expected
    assert not is_scaling(deployment(10), ReplicaSets(replica_set("new", 0, desired=9), []))


def test_deployment_without_replicasets_scales_nothing() -> None:
    assert scale_proportionally(deployment(3), ReplicaSets(None, [])) == ()
