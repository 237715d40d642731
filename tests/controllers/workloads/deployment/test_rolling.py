"""Steps of an update."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.semantics.workloads import desired_replicas
from sampan.api.types.apps_v1 import ReplicaSet
from sampan.controllers.workloads.deployment.replicasets import (
    ReplicaSets,
    max_replicas,
    max_unavailable,
    total_available,
    total_replicas,
)
from sampan.controllers.workloads.deployment.rollout import (
    has_old_pods,
    new_replica_count,
    rolling_update,
    scale_down_all,
)
from tests.controllers.ownership.objects import pod
from tests.controllers.workloads.deployment.objects import deployment, replica_set


def sizes(replica_sets: Sequence[ReplicaSet]) -> dict[str, int]:
    return {rs.metadata.uid: desired_replicas(rs) for rs in replica_sets}


@pytest.mark.parametrize(
    ("replicas", "surge", "present", "all_sizes", "expected"),
    [(10, 0, 0, 10, 0), (10, 2, 0, 10, 2), (10, 0, 5, 8, 7), (10, 5, 8, 12, 10), (1, 1, 0, 0, 1), (10, 2, 0, 13, 0)],
)
def test_how_far_the_new_set_grows(replicas: int, surge: int, present: int, all_sizes: int, expected: int) -> None:
    assert new_replica_count(deployment(replicas, surge=surge, missing=1), present, all_sizes) == expected


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        pytest.param((0, 0), [(10, 10)], {"new": 3}, id="first the new one grows"),
        pytest.param((3, 0), [(10, 10)], {"old0": 8}, id="then as many old pods go as may be missing"),
        pytest.param((3, 3), [(8, 8)], {"new": 5}, id="there is room again"),
        pytest.param((5, 3), [(8, 8)], {"old0": 5}, id="the new pods serve"),
        pytest.param((5, 0), [(8, 8)], {}, id="new pods that do not serve stop it"),
        pytest.param((5, 0), [(8, 7)], {}, id="so do they when an old one fails"),
        pytest.param((3, 0), [(10, 6)], {"old0": 8}, id="unhealthy pods go first"),
        pytest.param((3, 0), [(5, 3), (5, 5)], {"old0": 3}, id="those of any old set"),
        pytest.param((10, 10), [(1, 1), (2, 2)], {"old0": 0, "old1": 0}, id="the last old ones"),
        pytest.param((10, 10), [], {}, id="done"),
        pytest.param((12, 12), [], {"new": 10}, id="too many new ones"),
    ],
)
def test_a_step(new: tuple[int, int], old: list[tuple[int, int]], expected: dict[str, int]) -> None:
    older = [replica_set(f"old{at}", count, available=serve) for at, (count, serve) in enumerate(old)]
    replica_sets = ReplicaSets(replica_set("new", new[0], available=new[1]), older)
    assert sizes(rolling_update(deployment(10, surge=3, missing=2), replica_sets)) == expected


@given(
    replicas=st.integers(1, 20),
    surge=st.integers(0, 5),
    missing=st.integers(0, 5),
    old=st.lists(st.integers(0, 20), max_size=3),
    seed=st.randoms(use_true_random=False),
)
def test_an_update_ends_within_its_limits(
    replicas: int, surge: int, missing: int, old: list[int], seed: object
) -> None:
    """Pods that come are available at the next step; the update ends, and never has too many or too few."""
    new_deployment = deployment(replicas, surge=surge, missing=missing)
    present = ReplicaSets(replica_set("new", 0), [replica_set(f"old{at}", count) for at, count in enumerate(old)])
    start = total_replicas(present.all)
    most, least = max(max_replicas(new_deployment), start), min(replicas - max_unavailable(new_deployment), start)
    for _ in range(200):
        changes = {rs.metadata.uid: rs for rs in rolling_update(new_deployment, present)}
        if not changes:
            break
        after = [changes.get(rs.metadata.uid, rs) for rs in present.all]
        assert total_replicas(after) <= most
        kept = sum(min(desired_replicas(rs), rs.status.availableReplicas) for rs in after)
        assert kept >= min(least, total_available(present.all))
        settled = [replica_set(rs.metadata.uid, desired_replicas(rs)) for rs in after]
        present = ReplicaSets(settled[-1], settled[:-1])
    assert desired_replicas(present.new) == replicas if present.new else False
    assert total_replicas(present.old) == 0


def test_all_at_once() -> None:
    new_deployment = deployment(5, strategy="Recreate")
    replica_sets = ReplicaSets(None, [replica_set("a", 0, pods=0), replica_set("b", 3)])
    assert sizes(scale_down_all(new_deployment, replica_sets)) == {"b": 0}
    assert has_old_pods(replica_sets, [])
    gone = ReplicaSets(None, [replica_set("a", 0, pods=0)])
    assert not has_old_pods(gone, [])
    assert has_old_pods(gone, [pod("p")])
    assert not has_old_pods(gone, [pod("p", phase="Succeeded"), pod("q", phase="Failed")])
