"""New sizes for sets when the deployment's size changed."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.semantics.workloads import desired_replicas
from sampan.api.types.apps_v1 import ReplicaSet
from sampan.controllers.workloads.deployment.replicasets import DESIRED, MOST, ReplicaSets, max_replicas
from sampan.controllers.workloads.deployment.rollout import is_saturated, is_scaling, scale_proportionally
from tests.controllers.workloads.deployment.objects import deployment, replica_set


def sizes(replica_sets: Sequence[ReplicaSet]) -> dict[str, int]:
    return {rs.metadata.uid: desired_replicas(rs) for rs in replica_sets}


def sets(*counts: int, most: int) -> ReplicaSets:
    """The new set's size, then the old ones', the youngest first."""
    new = replica_set("new", counts[0], most=most, age_s=1)
    old = [replica_set(f"old{at}", count, most=most, age_s=9 + at) for at, count in enumerate(counts[1:])]
    return ReplicaSets(new, sorted(old, key=lambda rs: rs.metadata.creationTimestamp or ""))


@pytest.mark.parametrize(
    ("replicas", "surge", "counts", "most", "expected"),
    [
        pytest.param(12, 0, (10,), 10, {"new": 12}, id="the only one takes all, up"),
        pytest.param(5, 0, (10,), 10, {"new": 5}, id="the only one takes all, down"),
        pytest.param(10, 0, (0, 0), 10, {"new": 10}, id="none has pods: the newest"),
        pytest.param(12, 0, (5, 5), 10, {"new": 6, "old0": 6}, id="halves up"),
        pytest.param(6, 0, (5, 5), 10, {"new": 3, "old0": 3}, id="halves down"),
        pytest.param(20, 0, (2, 3, 5), 10, {"new": 4, "old0": 6, "old1": 10}, id="double"),
        pytest.param(5, 0, (2, 3, 5), 10, {"new": 1, "old0": 2, "old1": 2}, id="half"),
        pytest.param(0, 0, (3, 7), 10, {"new": 0, "old0": 0}, id="to nothing"),
        pytest.param(50, 2, (5, 5, 2), 12, {"new": 22, "old0": 22, "old1": 8}, id="with surge"),
    ],
)
def test_in_proportion(replicas: int, surge: int, counts: tuple[int, ...], most: int, expected: dict[str, int]) -> None:
    replica_sets = scale_proportionally(deployment(replicas, surge=surge, missing=1), sets(*counts, most=most))
    assert sizes(replica_sets) == expected
    assert {(rs.metadata.annotations[DESIRED], rs.metadata.annotations[MOST]) for rs in replica_sets} == {
        (str(replicas), str(replicas + surge))
    }


@given(
    replicas=st.integers(0, 60),
    surge=st.integers(0, 5),
    counts=st.lists(st.integers(1, 30), min_size=2, max_size=5),
    before=st.integers(1, 60),
)
def test_shares_add_up(replicas: int, surge: int, counts: list[int], before: int) -> None:
    new_deployment = deployment(replicas, surge=surge, missing=1)
    after = sizes(scale_proportionally(new_deployment, sets(*counts, most=before)))
    assert all(count >= 0 for count in after.values())
    allowed = max_replicas(new_deployment) if replicas else 0
    first = next(iter(after.values()))
    assert sum(after.values()) == allowed or (first == 0 and sum(after.values()) > allowed)


def test_old_sets_go_when_the_new_one_has_all() -> None:
    new = replica_set("new", 10, desired=10)
    replica_sets = scale_proportionally(
        deployment(10), ReplicaSets(new, [replica_set("old", 3), replica_set("gone", 0)])
    )
    assert sizes(replica_sets) == {"old": 0}
    assert is_saturated(deployment(10), new)
    assert not is_saturated(deployment(10), replica_set("new", 10, desired=10, available=9))
    assert not is_saturated(deployment(10), replica_set("new", 10))
    assert not is_saturated(deployment(10), None)


def test_several_sets_that_change_at_once_are_left_to_the_update() -> None:
    assert scale_proportionally(deployment(9, strategy="Recreate"), sets(2, 3, most=5)) == ()


@pytest.mark.parametrize(("desired", "expected"), [(10, False), (9, True), (None, False)])
def test_whether_the_size_changed(desired: int | None, expected: bool) -> None:
    assert is_scaling(deployment(10), ReplicaSets(replica_set("new", 3, desired=desired), [])) is expected
    assert not is_scaling(deployment(10), ReplicaSets(replica_set("new", 0, desired=9), []))


def test_a_deployment_without_sets_has_none_to_scale() -> None:
    assert scale_proportionally(deployment(3), ReplicaSets(None, [])) == ()
