"""Conditions of any kind, and controller references."""

import pytest

from sampan.api.semantics.conditions import condition_status, is_true, with_condition, without_condition
from sampan.api.semantics.owners import controller_of, is_controlled_by, new_controller_ref
from sampan.api.types.apps_v1 import ReplicaSet
from sampan.api.types.core_v1 import Pod
from sampan.api.types.meta_v1 import Condition, ObjectMeta, OwnerReference

OLD, NEW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def condition(type: str, status: str, time: str = OLD) -> Condition:
    return Condition(type=type, status=status, lastTransitionTime=time)


@pytest.mark.parametrize(
    ("before", "status", "time"),
    [(None, "True", NEW), ("True", "True", OLD), ("False", "True", NEW), ("Unknown", "True", NEW)],
)
def test_the_transition_time_changes_with_the_status(before: str | None, status: str, time: str) -> None:
    others = [condition("First", "True"), condition("Last", "True")]
    conditions = others if before is None else [others[0], condition("Ready", before), others[1]]
    result = with_condition(conditions, condition("Ready", status, NEW))
    position = len(others) if before is None else 1
    assert (result[position].type, result[position].status, result[position].lastTransitionTime) == (
        "Ready",
        status,
        time,
    )
    assert without_condition(result, "Ready") == others


def test_status_of_a_condition() -> None:
    conditions = [condition("Ready", "False"), condition("Synced", "True")]
    assert (condition_status(conditions, "Ready"), condition_status(conditions, "Absent")) == ("False", "")
    assert is_true(conditions, "Synced")
    assert not is_true(conditions, "Ready")


def test_controller_references() -> None:
    owner = ReplicaSet(metadata=ObjectMeta(name="web", uid="1"))
    pod = Pod(metadata=ObjectMeta(ownerReferences=[OwnerReference(uid="2"), new_controller_ref(owner)]))
    reference = controller_of(pod)
    assert reference is not None
    assert (reference.kind, reference.name, reference.uid) == ("ReplicaSet", "web", "1")
    assert is_controlled_by(pod, owner)
    assert not is_controlled_by(Pod(), owner)
