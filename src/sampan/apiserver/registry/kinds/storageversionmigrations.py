"""StorageVersionMigration: rewrites the stored objects of a resource in the current storage version."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat import gotext
from sampan.api.go_compat.internal_view import encode_error_value
from sampan.api.semantics.conditions import is_true
from sampan.api.types.storagemigration_v1beta1 import StorageVersionMigration, StorageVersionMigrationStatus
from sampan.apiserver.registry.behavior import GenericStatusStrategy, GenericStrategy, ResourceBehavior
from sampan.apiserver.registry.strategy import Column, Context
from sampan.apiserver.registry.validation import (
    FieldErrors,
    validate_conditions,
    validate_non_negative,
)
from sampan.apiserver.registry.workloads import IMMUTABLE
from sampan.apiserver.tables.columns import NAME

SUCCEEDED, FAILED = "Succeeded", "Failed"
_CONDITIONS, _VERSION = "status.conditions", "status.resourceVersion"
_MAX_INT64: Final = 2**63 - 1


def _format_resource(migration: StorageVersionMigration, now: float) -> str:
    resource = migration.spec.resource
    return f"{resource.resource}.{resource.group}" if resource.group else resource.resource


def _format_status(migration: StorageVersionMigration, now: float) -> str:
    """Return the last condition that is true."""
    states = [condition.type for condition in migration.status.conditions if condition.status == "True"]
    return next((state for state in reversed(states) if state in ("Running", SUCCEEDED, FAILED)), "Unknown")


class StorageVersionMigrationStrategy(GenericStrategy):
    columns = (
        replace(NAME, format=""),
        Column("Resource", _format_resource, description="GroupResource to migrate"),
        Column("Status", _format_status, description="Status of the migration"),
    )

    def validate_create(self, ctx: Context, obj: Any) -> Iterable[FieldError]:
        return _validate_resource(obj.spec.resource)

    def validate_update(self, ctx: Context, obj: Any, old: Any) -> Iterable[FieldError]:
        yield from self.validate_create(ctx, obj)
        if obj.spec != old.spec:
            value = {"Resource": {"group": obj.spec.resource.group, "resource": obj.spec.resource.resource}}
            yield FieldError.invalid("spec", value, IMMUTABLE)


def _validate_resource(resource: Any) -> FieldErrors:
    path = "spec.resource"
    if not resource.resource:
        yield FieldError.required(f"{path}.resource", "resource is required to be set")
    elif errors := names.dns1035_label(resource.resource):
        yield FieldError.invalid(f"{path}.resource", resource.resource, ",".join(errors))
    if resource.group and (errors := names.dns1123_subdomain(resource.group)):
        yield FieldError.invalid(f"{path}.group", resource.group, ",".join(errors))


class StorageVersionMigrationStatusStrategy(GenericStatusStrategy):
    def validate_update(
        self, ctx: Context, obj: StorageVersionMigration, old: StorageVersionMigration
    ) -> Iterable[FieldError]:
        status, before = obj.status, old.status
        yield from _validate_resource_version(status.resourceVersion)
        yield from validate_conditions(status.conditions, _CONDITIONS)
        if before.resourceVersion and before.resourceVersion != status.resourceVersion:
            yield FieldError.invalid(_VERSION, status.resourceVersion, "field is immutable")
        for text in _state_errors(status, before):
            yield FieldError.invalid(_CONDITIONS, encode_error_value(list(status.conditions)), text)


def _validate_resource_version(text: str) -> FieldErrors:
    if not text:
        return
    try:
        number = int(text)
    except ValueError:
        number = None
    if number is None or abs(number) > _MAX_INT64:
        why = "invalid syntax" if number is None else "value out of range"
        quoted = gotext.quote(text)
        detail = f"failed to parse resource version {quoted}: strconv.ParseInt: parsing {quoted}: {why}"
        yield FieldError.invalid(_VERSION, text, detail)
    else:
        yield from validate_non_negative(number, _VERSION)


def _state_errors(status: StorageVersionMigrationStatus, before: StorageVersionMigrationStatus) -> Iterable[str]:
    """Yield the errors of conditions that contradict each other or the conditions before the update."""
    succeeded, failed = (is_true(status.conditions, name) for name in (SUCCEEDED, FAILED))
    if succeeded and failed:
        yield "Both success and failed conditions cannot be true at the same time"
    if is_true(before.conditions, SUCCEEDED) and not succeeded:
        yield "Success condition cannot be set to false once it is true"
    if is_true(before.conditions, FAILED) and not failed:
        yield "Failed condition cannot be set to false once it is true"


_strategy = StorageVersionMigrationStrategy(has_status=True, allow_unconditional_update=False)
BEHAVIOR = ResourceBehavior(
    strategy=_strategy, views={"status": StorageVersionMigrationStatusStrategy(_strategy, keeps_metadata=True)}
)
