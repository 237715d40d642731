"""The condition Unused of claims."""

from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import PersistentVolumeClaim, Pod
from sampan.controllers.storage.claim_usage import has_usage, is_used, lacks_usage, with_usage

NOW = 1_767_225_600.0
STAMP = "2026-01-01T00:00:00Z"


def claim(*conditions: dict[str, Any], phase: str = "Bound", **meta: Any) -> PersistentVolumeClaim:
    value = {"metadata": {"name": "c", "namespace": "n", **meta}, "status": {"phase": phase, "conditions": conditions}}
    return codec.from_value(value, PersistentVolumeClaim)


def pod(status: dict[str, Any] | None = None, volume: dict[str, Any] | None = None, **meta: Any) -> Pod:
    volume = volume or {"persistentVolumeClaim": {"claimName": "c"}}
    value = {
        "metadata": {"name": "p", "namespace": "n", "uid": "u", **meta},
        "spec": {"volumes": [{"name": "data", **volume}], "containers": []},
        "status": status or {},
    }
    return codec.from_value(value, Pod)


RUNNING = {"containerStatuses": [{"name": "c", "state": {"running": {}}}]}
ENDED = {"containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 0}}}]}
EPHEMERAL: dict[str, Any] = {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        pytest.param(pod(), True, id="unscheduled pod"),
        pytest.param(pod({"phase": "Failed"}), False, id="failed pod"),
        pytest.param(pod(RUNNING, deletionTimestamp=STAMP), True, id="terminating pod that runs"),
        pytest.param(pod(ENDED, deletionTimestamp=STAMP), False, id="terminating pod that has ended"),
        pytest.param(pod(deletionTimestamp=STAMP), False, id="terminating pod that never ran"),
        pytest.param(pod(volume={"persistentVolumeClaim": {"claimName": "d"}}), False, id="another claim"),
        pytest.param(pod(volume=EPHEMERAL), False, id="ephemeral volume of another name"),
    ],
)
def test_pods_that_use_a_claim(user: Pod, expected: bool) -> None:
    assert is_used(claim(), [user]) is expected


def test_ephemeral_claim_is_used_by_its_own_pod_only() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
    held = claim(name="p-data", ownerReferences=[owner])
    assert is_used(held, [pod(volume=EPHEMERAL)])
    assert not is_used(held, [pod(volume=EPHEMERAL, uid="other")])


@pytest.mark.parametrize(
    ("before", "pods", "expected"),
    [
        ([], [], ("True", "NoPodsUsingPVC", "No pods are currently referencing this PVC")),
        ([], [pod()], ("False", "PodUsingPVC", "A pod is currently referencing this PVC")),
        ([{"type": "Unused", "status": "True"}], [], None),
        ([{"type": "Unused", "status": "False"}], [pod()], None),
    ],
)
def test_condition_changes_with_usage(
    before: list[dict[str, Any]], pods: list[Pod], expected: tuple[str, str, str] | None
) -> None:
    changed = with_usage(claim(*before), pods, NOW)
    if expected is None:
        assert changed is None
    else:
        assert changed is not None
        (condition,) = changed.status.conditions
        assert (condition.status, condition.reason, condition.message) == expected
        assert condition.lastTransitionTime == STAMP


def test_changed_condition_keeps_its_place() -> None:
    before = claim({"type": "Unused", "status": "True"}, {"type": "Resizing", "status": "True"})
    changed = with_usage(before, [pod()], NOW)
    assert changed is not None
    assert [(condition.type, condition.status) for condition in changed.status.conditions] == [
        ("Unused", "False"),
        ("Resizing", "True"),
    ]


def test_only_bound_claims_have_the_condition() -> None:
    assert has_usage(claim())
    assert not has_usage(claim(phase="Pending"))
    assert not has_usage(claim(deletionTimestamp=STAMP))
    assert lacks_usage(claim())
    assert not lacks_usage(claim({"type": "Unused", "status": "False"}))
