"""The steps of a rolling update of replication controllers."""

from __future__ import annotations

from typing import Any

import pytest

from sampan.kubectl.commands.rolling_update import steps
from sampan.kubectl.commands.rolling_update.steps import UpdateLimits
from sampan.machinery.cli_errors import CliError


def controller(name: str, replicas: int = 1, **annotations: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "annotations": annotations},
        "spec": {"replicas": replicas, "selector": {"app": "x", "version": name}},
    }


def run(old: int, new: int, limits: UpdateLimits, *, available: bool = True) -> list[tuple[int, int]]:
    """Return the replica counts after each half step, if pods become available at once or never."""
    counts: list[tuple[int, int]] = []
    for _ in range(50):
        if steps.is_complete(old, new, limits):
            return counts
        new = steps.compute_scale_up(old, new, limits)
        counts.append((old, new))
        old = steps.compute_scale_down(old, new, new if available else 0, limits)
        counts.append((old, new))
    return counts


@pytest.mark.parametrize(
    ("old", "desired", "counts"),
    [
        (2, 2, [(2, 1), (1, 1), (1, 2), (0, 2)]),
        (1, 3, [(1, 3), (0, 3)]),
        (3, 1, [(3, 0), (1, 0), (1, 1), (0, 1)]),
        (0, 2, [(0, 2), (0, 2)]),
    ],
)
def test_replica_counts_with_a_surge_of_one(old: int, desired: int, counts: list[tuple[int, int]]) -> None:
    assert run(old, 0, UpdateLimits(desired=desired)) == counts


def test_old_pods_are_kept_while_new_pods_are_unavailable() -> None:
    counts = run(2, 0, UpdateLimits(desired=2), available=False)
    assert set(counts) == {(2, 1)}


@pytest.mark.parametrize(
    ("old", "new", "desired"),
    [(old, new, desired) for desired in range(1, 5) for old in range(5) for new in range(desired + 1)],
)
@pytest.mark.parametrize(("surge", "unavailable"), [(1, 0), (0, 1), (2, 2)])
def test_every_state_completes_within_the_limits(
    old: int, new: int, desired: int, surge: int, unavailable: int
) -> None:
    limits = UpdateLimits(desired=desired, max_surge=surge, max_unavailable=unavailable)
    counts = run(old, new, limits)
    assert not counts or counts[-1] == (0, desired)
    for old_count, new_count in counts:
        assert old_count + new_count <= max(old + new, desired + surge)
        assert old_count + new_count >= min(old + new, limits.min_available)


def test_target_controller_records_its_source() -> None:
    target = steps.target_controller(controller("b", 3), "a:uid-a")
    assert target["spec"]["replicas"] == 0
    assert steps.desired_replicas(target) == 3
    steps.check_continuation(target, "a:uid-a")
    with pytest.raises(CliError, match="Missing/unexpected annotations for controller b"):
        steps.check_continuation(target, "other:uid")


def test_rollback_returns_to_the_original_count() -> None:
    old = controller("a", 1, **{steps.ORIGINAL_REPLICAS: "4"})
    annotations = steps.rollback_annotations(old, controller("b"))
    assert annotations[steps.DESIRED_REPLICAS] == "4"
    assert annotations[steps.UPDATE_SOURCE] == "b:uid-b"
    with pytest.raises(CliError, match='couldn\'t find original replica count of "a"'):
        steps.rollback_annotations(controller("a"), controller("b"))


def test_controllers_must_not_share_pods() -> None:
    steps.check_selectors(controller("a"), controller("b"), "file")
    with pytest.raises(CliError, match="cannot have the same name"):
        steps.check_selectors(controller("a"), controller("a"), "file")
    same = controller("b") | {"spec": controller("a")["spec"]}
    with pytest.raises(CliError, match="must specify a matching key with non-equal value in Selector for a"):
        steps.check_selectors(controller("a"), same, "file")
