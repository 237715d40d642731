"""Claims of storage: what the recordings do not show."""

from typing import Any

import pytest

from sampan.api.types.core_v1 import PersistentVolumeClaim
from sampan.apiserver.registry.kinds import persistentvolumeclaims
from tests.apiserver.registry.kind_rules import Rules

RULES = Rules(
    persistentvolumeclaims.BEHAVIOUR,
    PersistentVolumeClaim,
    {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
)
OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
SNAPSHOT = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}
OTHER = {"apiGroup": "x.io", "kind": "Thing", "name": "t"}


def bound(spec: dict[str, Any] | None = None, capacity: str = "1Gi") -> Any:
    claim = RULES.new(spec)
    claim.status.phase, claim.status.capacity = "Bound", {"storage": capacity}
    return claim


def storage(size: str) -> dict[str, Any]:
    return {"resources": {"requests": {"storage": size}}}


def test_both_names_of_a_source_say_the_same() -> None:
    old_way, new_way = RULES.new({"dataSource": SNAPSHOT}).spec, RULES.new({"dataSourceRef": OTHER}).spec
    assert (old_way.dataSourceRef.kind, old_way.dataSourceRef.name) == ("VolumeSnapshot", "s")
    assert (new_way.dataSource.kind, new_way.dataSource.name) == ("Thing", "t")
    elsewhere = RULES.new({"dataSourceRef": {**OTHER, "namespace": "n"}}).spec
    assert (elsewhere.dataSource, elsewhere.dataSourceRef) == (None, None)


def test_a_bound_claim_may_grow_and_take_back_what_it_did_not_get() -> None:
    grown = bound(storage("5Gi"), capacity="1Gi")
    assert RULES.changed(grown, storage("7Gi"))[1] == []
    assert RULES.changed(grown, storage("2Gi"))[1] == []
    assert RULES.changed(grown, storage("1Gi"))[1] == [
        "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"
    ]


def test_amounts_that_are_spelled_otherwise_are_the_same() -> None:
    assert RULES.changed(RULES.new(storage("1k")), storage("1000"))[1] == []


def test_a_class_may_be_named_later_and_move_from_its_annotation() -> None:
    assert RULES.changed(RULES.new(), {"storageClassName": "c"})[1] == []
    annotated = RULES.new(annotations={OLD_CLASS: "c"})
    assert RULES.changed(annotated, {"storageClassName": "c"})[1] == []
    faults = RULES.changed(annotated, {"storageClassName": "d"}, annotations={OLD_CLASS: "d"})[1]
    assert faults[0] == f'metadata.annotations.{OLD_CLASS}: Invalid value: "d": field is immutable'
    assert faults[1].startswith("spec: Forbidden: spec is immutable after creation except resources.requests")


@pytest.mark.parametrize(("name", "word"), [(None, "nil"), ("", "empty string")])
def test_attributes_in_effect_cannot_be_taken_away(name: str | None, word: str) -> None:
    claim = bound({"volumeAttributesClassName": "v"})
    claim.status.currentVolumeAttributesClassName = "v"
    assert RULES.changed(claim, {"volumeAttributesClassName": "w"})[1] == []
    assert RULES.changed(claim, {"volumeAttributesClassName": name})[1] == [
        f"spec.volumeAttributesClassName: Forbidden: update to {word} is forbidden when "
        "status.currentVolumeAttributesClassName is not nil"
    ]


def test_errors_of_the_status() -> None:
    status = {
        "allocatedResources": {"storage": "-1", "cpu": "1", "example.com/x": "1"},
        "allocatedResourceStatuses": {"storage": "Odd", "a b": "NodeResizePending"},
    }
    faults = RULES.with_status(RULES.new(), status)[1]
    assert [fault.partition(": name part")[0] for fault in faults] == [
        'status.allocatedResourceStatuses: Invalid value: "a b"',
        'status.allocatedResourceStatuses: Unsupported value: "storage": supported values: '
        '"ControllerResizeInProgress", '
        '"ControllerResizeInfeasible", "NodeResizeInProgress", "NodeResizeInfeasible", "NodeResizePending"',
        'status.allocatedResources: Unsupported value: "cpu": supported values: "storage"',
        "status.allocatedResources[storage]: Invalid value: -1: must be a valid resource quantity",
    ]


def test_a_fraction_of_a_byte_gets_a_warning() -> None:
    assert RULES.warnings(storage("1500m")) == [
        'spec.resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer'
    ]


def test_the_table_shows_the_volume_that_was_given() -> None:
    claim = bound({"volumeName": "v", "storageClassName": "c"})
    claim.status.accessModes = ["ReadWriteOnce"]
    assert RULES.cells(claim) == ["a", "Bound", "v", "1Gi", "RWO", "c", "<unset>", "0s", "Filesystem"]
    assert RULES.cells(RULES.new())[1:6] == ["Pending", "", "", "", ""]
