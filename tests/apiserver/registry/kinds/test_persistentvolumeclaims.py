"""PersistentVolumeClaims: rules that the golden replay does not cover."""

from typing import Any

import pytest

from sampan.api.types.core_v1 import PersistentVolumeClaim
from sampan.apiserver.registry.kinds import persistentvolumeclaims
from tests.apiserver.registry.kind_rules import Rules

RULES = Rules(
    persistentvolumeclaims.BEHAVIOR,
    PersistentVolumeClaim,
    {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
)
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
SNAPSHOT = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}
OTHER = {"apiGroup": "x.io", "kind": "Thing", "name": "t"}


def bound_claim(spec: dict[str, Any] | None = None, capacity: str = "1Gi") -> Any:
    claim = RULES.create(spec)
    claim.status.phase, claim.status.capacity = "Bound", {"storage": capacity}
    return claim


def storage(size: str) -> dict[str, Any]:
    return {"resources": {"requests": {"storage": size}}}


def test_data_source_and_data_source_ref_are_synchronized() -> None:
    with_data_source, with_data_source_ref = (
        RULES.create({"dataSource": SNAPSHOT}).spec,
        RULES.create({"dataSourceRef": OTHER}).spec,
    )
    assert (with_data_source.dataSourceRef.kind, with_data_source.dataSourceRef.name) == ("VolumeSnapshot", "s")
    assert (with_data_source_ref.dataSource.kind, with_data_source_ref.dataSource.name) == ("Thing", "t")
    from_other_namespace = RULES.create({"dataSourceRef": {**OTHER, "namespace": "n"}}).spec
    assert (from_other_namespace.dataSource, from_other_namespace.dataSourceRef) == (None, None)


def test_requests_of_bound_claim_can_be_reduced_only_to_above_capacity() -> None:
    expanded = bound_claim(storage("5Gi"), capacity="1Gi")
    assert RULES.update(expanded, storage("7Gi"))[1] == []
    assert RULES.update(expanded, storage("2Gi"))[1] == []
    assert RULES.update(expanded, storage("1Gi"))[1] == [
        "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"
    ]


def test_equal_quantities_in_different_notation_are_no_change() -> None:
    assert RULES.update(RULES.create(storage("1k")), storage("1000"))[1] == []


def test_storage_class_can_be_set_later_or_moved_from_annotation() -> None:
    assert RULES.update(RULES.create(), {"storageClassName": "c"})[1] == []
    annotated = RULES.create(annotations={CLASS_ANNOTATION: "c"})
    assert RULES.update(annotated, {"storageClassName": "c"})[1] == []
    faults = RULES.update(annotated, {"storageClassName": "d"}, annotations={CLASS_ANNOTATION: "d"})[1]
    assert faults[0] == f'metadata.annotations.{CLASS_ANNOTATION}: Invalid value: "d": field is immutable'
    assert faults[1].startswith("spec: Forbidden: spec is immutable after creation except resources.requests")


@pytest.mark.parametrize(("name", "word"), [(None, "nil"), ("", "empty string")])
def test_current_volume_attributes_class_cannot_be_unset(name: str | None, word: str) -> None:
    claim = bound_claim({"volumeAttributesClassName": "v"})
    claim.status.currentVolumeAttributesClassName = "v"
    assert RULES.update(claim, {"volumeAttributesClassName": "w"})[1] == []
    assert RULES.update(claim, {"volumeAttributesClassName": name})[1] == [
        f"spec.volumeAttributesClassName: Forbidden: update to {word} is forbidden when "
        "status.currentVolumeAttributesClassName is not nil"
    ]


def test_errors_of_the_status() -> None:
    status = {
        "allocatedResources": {"storage": "-1", "cpu": "1", "example.com/x": "1"},
        "allocatedResourceStatuses": {"storage": "Odd", "a b": "NodeResizePending"},
    }
    faults = RULES.update_status(RULES.create(), status)[1]
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


def test_table_cells_of_bound_and_pending_claims() -> None:
    claim = bound_claim({"volumeName": "v", "storageClassName": "c"})
    claim.status.accessModes = ["ReadWriteOnce"]
    assert RULES.cells(claim) == ["a", "Bound", "v", "1Gi", "RWO", "c", "<unset>", "0s", "Filesystem"]
    assert RULES.cells(RULES.create())[1:6] == ["Pending", "", "", "", ""]
