"""How a deletion changes an object, depending on its finalizers, grace period and propagation policy."""

import pytest

from sampan.api.types.core_v1 import ConfigMap
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.values import times
from sampan.apiserver.registry import deletion
from sampan.apiserver.registry.deletion import DeleteOptions, DeletionAction, Policy

NOW = 1_000_000.5
WAIT = "example.com/wait"


def _object(*, finalizers: list[str] | None = None, ends_in_s: float | None = None, grace_s: int = 0) -> ConfigMap:
    meta = ObjectMeta(name="a", generation=1, finalizers=finalizers or [])
    if ends_in_s is not None:
        meta.deletionTimestamp = times.format_time(NOW + ends_in_s)
        meta.deletionGracePeriodSeconds = grace_s
    return ConfigMap(metadata=meta)


def _mark(
    obj: ConfigMap, *, grace_s: int | None = None, requested_s: int | None = None, policy: Policy = ""
) -> DeletionAction:
    return deletion.mark(obj, grace_s=grace_s, requested_s=requested_s, policy=policy, now=NOW)


def _ends_in_s(obj: ConfigMap) -> float:
    assert obj.metadata.deletionTimestamp is not None
    return times.parse_time(obj.metadata.deletionTimestamp) - int(NOW)


def test_object_without_grace_period_and_finalizers_is_removed_immediately() -> None:
    obj = _object()
    assert _mark(obj) is DeletionAction.REMOVE
    assert obj == _object(), "the object is not modified"


def test_object_with_finalizers_is_marked_for_deletion() -> None:
    obj = _object(finalizers=[WAIT])
    assert _mark(obj) is DeletionAction.MARK
    assert (_ends_in_s(obj), obj.metadata.deletionGracePeriodSeconds, obj.metadata.generation) == (0, 0, 2)


def test_a_second_deletion_changes_nothing() -> None:
    obj = _object(finalizers=[WAIT])
    _mark(obj)
    before = obj.metadata.generation, obj.metadata.deletionTimestamp
    assert deletion.mark(obj, grace_s=None, requested_s=None, policy="", now=NOW + 60) is DeletionAction.MARK
    assert (obj.metadata.generation, obj.metadata.deletionTimestamp) == before


def test_deletion_does_not_increment_generation_zero() -> None:
    obj = _object(finalizers=[WAIT])
    obj.metadata.generation = 0
    _mark(obj)
    assert obj.metadata.generation == 0


@pytest.mark.parametrize(
    ("grace_s", "finalizers", "action"),
    [
        (30, [], DeletionAction.MARK),
        (30, [WAIT], DeletionAction.MARK),
        (0, [], DeletionAction.MARK_AND_REMOVE),
        (0, [WAIT], DeletionAction.MARK),
    ],
)
def test_first_deletion_sets_timestamp_and_grace_period(
    grace_s: int, finalizers: list[str], action: DeletionAction
) -> None:
    obj = _object(finalizers=finalizers)
    assert _mark(obj, grace_s=grace_s) is action
    meta = obj.metadata
    assert (_ends_in_s(obj), meta.deletionGracePeriodSeconds, meta.generation) == (grace_s, grace_s, 2)


@pytest.mark.parametrize("requested_s", [None, 30, 31, 600])
def test_running_grace_period_is_not_extended(requested_s: int | None) -> None:
    obj = _object(ends_in_s=20, grace_s=30)
    assert _mark(obj, grace_s=30, requested_s=requested_s) is DeletionAction.NONE
    assert obj == _object(ends_in_s=20, grace_s=30)


@pytest.mark.parametrize(
    ("requested_s", "ends_in_s", "grace_s", "action"),
    [
        (25, 15, 25, DeletionAction.MARK),
        (11, 1, 11, DeletionAction.MARK),
        (5, 0, 1, DeletionAction.MARK),
        (0, 0, 0, DeletionAction.MARK_AND_REMOVE),
        (-7, 0, 1, DeletionAction.MARK),
    ],
    ids=["shorter", "much shorter", "already elapsed", "zero", "negative"],
)
def test_running_grace_period_can_be_shortened(
    requested_s: int, ends_in_s: int, grace_s: int, action: DeletionAction
) -> None:
    """The grace period started ten seconds ago and ends in twenty; a shorter one never ends in the past."""
    obj = _object(ends_in_s=20, grace_s=30)
    assert _mark(obj, grace_s=30, requested_s=requested_s) is action
    assert (_ends_in_s(obj), obj.metadata.deletionGracePeriodSeconds, obj.metadata.generation) == (
        ends_in_s,
        grace_s,
        1,
    )


def test_propagation_policy_is_ignored_during_running_grace_period() -> None:
    obj = _object(ends_in_s=20, grace_s=30)
    assert _mark(obj, grace_s=30, policy="Orphan") is DeletionAction.NONE
    assert obj.metadata.finalizers == []


def test_future_deletion_timestamp_becomes_now_if_only_finalizers_are_left() -> None:
    obj = _object(finalizers=[WAIT], ends_in_s=20, grace_s=0)
    assert _mark(obj) is DeletionAction.MARK
    assert _ends_in_s(obj) == 0


@pytest.mark.parametrize(
    ("options", "default", "finalizers", "policy"),
    [
        ({}, "Background", [], "Background"),
        ({}, "Orphan", [], "Orphan"),
        ({}, "Background", ["orphan"], "Orphan"),
        ({}, "Orphan", ["foregroundDeletion"], "Foreground"),
        ({"propagation_policy": "Background"}, "Orphan", ["orphan"], "Background"),
        ({"orphan_dependents": True}, "Background", ["foregroundDeletion"], "Orphan"),
        ({"orphan_dependents": False}, "Orphan", ["foregroundDeletion"], "Background"),
    ],
)
def test_propagation_policy_from_options_finalizers_or_default(
    options: dict[str, object], default: Policy, finalizers: list[str], policy: str
) -> None:
    assert deletion.policy_of(DeleteOptions(**options), default, finalizers) == policy  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("policy", "before", "after"),
    [
        ("Orphan", [], ["orphan"]),
        ("Foreground", ["orphan", WAIT], [WAIT, "foregroundDeletion"]),
        ("Background", ["orphan", WAIT, "foregroundDeletion"], [WAIT]),
        ("Foreground", ["foregroundDeletion", WAIT], ["foregroundDeletion", WAIT]),
        ("", ["orphan"], []),
    ],
)
def test_propagation_policy_sets_garbage_collector_finalizers(
    policy: Policy, before: list[str], after: list[str]
) -> None:
    assert deletion.finalizers_for(policy, before) == after


@pytest.mark.parametrize(
    ("obj", "is_finished"),
    [
        (_object(), False),
        (_object(ends_in_s=5, grace_s=5), False),
        (_object(ends_in_s=0, finalizers=[WAIT]), False),
        (_object(ends_in_s=0), True),
    ],
)
def test_deletion_is_finished_without_grace_period_and_finalizers(obj: ConfigMap, is_finished: bool) -> None:
    assert deletion.is_finished(obj) == is_finished
