"""Storage version migrations: the checks of their spec and of the conditions in their status."""

from itertools import pairwise
from typing import Any, cast

import pytest

from sampan.api.types.meta_v1 import Condition, GroupResource, ObjectMeta
from sampan.api.types.storagemigration_v1beta1 import (
    StorageVersionMigration,
    StorageVersionMigrationSpec,
    StorageVersionMigrationStatus,
)
from sampan.apiserver.registry.kinds.storageversionmigrations import BEHAVIOR
from sampan.apiserver.registry.strategy import Context
from sampan.apiserver.registry.strategy_services import StrategyServices
from sampan.apiserver.request.call import UserInfo

CTX = Context(services=cast(StrategyServices, None), user=UserInfo(name="admin"), now="2026-01-01T00:00:00Z")


def _migration(resource: str = "widgets", version: str = "", **conditions: str) -> StorageVersionMigration:
    states = [
        Condition(type=name, status=status, reason="R", lastTransitionTime="2026-01-01T00:00:00Z")
        for name, status in conditions.items()
    ]
    return StorageVersionMigration(
        metadata=ObjectMeta(name="m"),
        spec=StorageVersionMigrationSpec(resource=GroupResource(group="example.com", resource=resource)),
        status=StorageVersionMigrationStatus(conditions=states, resourceVersion=version),
    )


def _status_errors(new: StorageVersionMigration, old: StorageVersionMigration) -> list[str]:
    view = BEHAVIOR.view("status")
    assert view is not None
    return [f"{error.field}: {error.detail}" for error in view.validate_update(CTX, new, old)]


def test_the_resource_is_required_and_cannot_change() -> None:
    strategy = BEHAVIOR.strategy
    (missing,) = strategy.validate_create(CTX, _migration(""))
    assert str(missing) == "spec.resource.resource: Required value: resource is required to be set"
    (changed,) = strategy.validate_update(CTX, _migration("others"), _migration())
    value = '{"Resource":{"group":"example.com","resource":"others"}}'
    assert str(changed) == f"spec: Invalid value: {value}: field is immutable"


def test_usual_sequence_of_conditions_is_valid() -> None:
    steps = [
        _migration(),
        _migration(version="7", Running="True"),
        _migration(version="7", Running="False", Succeeded="True"),
        _migration(version="7", Succeeded="True"),
    ]
    for old, new in pairwise(steps):
        assert _status_errors(new, old) == []


CONTRADICTIONS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"version": "x"}, 'failed to parse resource version "x"'),
    ({}, {"version": "-1"}, "must be greater than or equal to 0"),
    ({"version": "1"}, {"version": "2"}, "field is immutable"),
    ({}, {"Succeeded": "True", "Failed": "True"}, "Both success and failed conditions cannot be true"),
    ({"Succeeded": "True"}, {"Succeeded": "False"}, "Success condition cannot be set to false"),
    ({"Failed": "True"}, {}, "Failed condition cannot be set to false"),
]


@pytest.mark.parametrize(("old", "new", "text"), CONTRADICTIONS, ids=[text for _, _, text in CONTRADICTIONS])
def test_contradictory_status_updates_are_rejected(old: dict[str, Any], new: dict[str, Any], text: str) -> None:
    (error,) = _status_errors(_migration(**new), _migration(**old))
    assert text in error
