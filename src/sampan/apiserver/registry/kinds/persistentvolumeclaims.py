"""PersistentVolumeClaim: a request for storage, immutable except for size and attributes class once bound."""

from collections.abc import Iterable

import msgspec

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat.internal_view import difference
from sampan.api.names import is_native_resource
from sampan.api.selectors.label_selector import selector_errors
from sampan.api.types.core_v1 import (
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    TypedLocalObjectReference,
    TypedObjectReference,
    VolumeResourceRequirements,
)
from sampan.api.values.quantity import Quantity, parse
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.podspec.resources import round_up
from sampan.apiserver.registry.podspec.volumes.volume_claims import validate_claim_spec
from sampan.apiserver.registry.strategy import Column, Context, StatusStrategy, Strategy
from sampan.apiserver.registry.validation import FieldErrors, validate_immutable
from sampan.apiserver.registry.volumes.classes import OLD_CLASS, OLD_CLASS_WARNING, class_of, modes_in_short
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import AGE, NAME

_PENDING, _BOUND = "Pending", "Bound"
_STORAGE = "storage"
_SIZE, _ATTRIBUTES = "spec.resources.requests.storage", "spec.volumeAttributesClassName"
_RESIZE_STATUSES = (
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
)


def _phase(claim: PersistentVolumeClaim, now: float) -> str:
    return claim.status.phase if claim.metadata.deletionTimestamp is None else "Terminating"


def _capacity(claim: PersistentVolumeClaim, now: float) -> str:
    return claim.status.capacity.get(_STORAGE, "0") if claim.spec.volumeName else ""


def _modes(claim: PersistentVolumeClaim, now: float) -> str:
    return modes_in_short(claim.status.accessModes) if claim.spec.volumeName else ""


def _attributes_class(claim: PersistentVolumeClaim, now: float) -> str:
    name = claim.spec.volumeAttributesClassName
    return name if name is not None else cells.UNSET


_COLUMNS = (
    NAME,
    Column("Status", _phase, field="status.phase"),
    Column("Volume", lambda claim, now: claim.spec.volumeName, field="spec.volumeName"),
    Column("Capacity", _capacity, field="status.capacity"),
    Column("Access Modes", _modes, field="status.accessModes"),
    Column("StorageClass", lambda claim, now: class_of(claim), description="StorageClass of the pvc"),
    Column("VolumeAttributesClass", _attributes_class, description="VolumeAttributesClass of the pvc"),
    AGE,
    Column("VolumeMode", lambda claim, now: claim.spec.volumeMode or cells.UNSET, field="spec.volumeMode", wide=True),
)


class PersistentVolumeClaimStrategy(Strategy):
    columns = _COLUMNS
    return_deleted_object = True

    def default(self, obj: PersistentVolumeClaim) -> None:
        spec, status = obj.spec, obj.status
        status.phase = status.phase or _PENDING
        if spec.volumeMode is None:
            spec.volumeMode = "Filesystem"
        for amounts in (spec.resources.limits, spec.resources.requests, status.capacity, status.allocatedResources):
            round_up(amounts)

    def prepare_for_create(self, ctx: Context, obj: PersistentVolumeClaim) -> None:
        obj.status = PersistentVolumeClaimStatus(phase=_PENDING)
        _settle_sources(obj.spec, None)

    def validate_create(self, ctx: Context, obj: PersistentVolumeClaim) -> Iterable[FieldError]:
        return validate_claim_spec(obj.spec, "spec")

    def prepare_for_update(self, ctx: Context, obj: PersistentVolumeClaim, old: PersistentVolumeClaim) -> None:
        obj.status = old.status
        _settle_sources(obj.spec, old.spec)

    def validate_update(
        self, ctx: Context, obj: PersistentVolumeClaim, old: PersistentVolumeClaim
    ) -> Iterable[FieldError]:
        before = old.spec
        has_group = any(source is not None and source.apiGroup is not None for source in _sources(before))
        allow_bad_values = bool(selector_errors(before.selector, ""))
        yield from validate_claim_spec(obj.spec, "spec", allow_bad_values=allow_bad_values, allow_bad_groups=has_group)
        yield from _validate_claim_update(obj, old)

    def warnings(self, ctx: Context, obj: PersistentVolumeClaim, old: PersistentVolumeClaim | None) -> Iterable[str]:
        if OLD_CLASS in obj.metadata.annotations:
            yield f"metadata.annotations[{OLD_CLASS}]: {OLD_CLASS_WARNING}"
        for kind in ("requests", "limits"):
            text = getattr(obj.spec.resources, kind).get(_STORAGE, "0")
            if parse(text).milli_value() % 1000:
                yield (
                    f'spec.resources.{kind}[{_STORAGE}]: fractional byte value "{text}" is invalid, must be an integer'
                )


# -- data sources ------------------------------------------------------------------------------------------------------


def _sources(spec: PersistentVolumeClaimSpec) -> tuple[TypedLocalObjectReference | TypedObjectReference | None, ...]:
    return spec.dataSource, spec.dataSourceRef


def _settle_sources(spec: PersistentVolumeClaimSpec, old: PersistentVolumeClaimSpec | None) -> None:
    """Make dataSource and dataSourceRef agree.

    A reference to another namespace is dropped because that feature is disabled, and a dataSource without a
    dataSourceRef is kept only for claims and snapshots.
    """
    ref = spec.dataSourceRef
    if ref is not None and ref.namespace and (old is None or old.dataSourceRef is None):
        ref = spec.dataSourceRef = None
    had_source = old is not None and any(source is not None for source in _sources(old))
    if not had_source and ref is None and not _is_claim_or_snapshot(spec.dataSource):
        spec.dataSource = None
    source = spec.dataSource
    if source is not None and ref is None:
        spec.dataSourceRef = TypedObjectReference(apiGroup=source.apiGroup, kind=source.kind, name=source.name)
    elif ref is not None and source is None and not ref.namespace:
        spec.dataSource = TypedLocalObjectReference(apiGroup=ref.apiGroup, kind=ref.kind, name=ref.name)


def _is_claim_or_snapshot(source: TypedLocalObjectReference | None) -> bool:
    source_kinds = (("PersistentVolumeClaim", ""), ("VolumeSnapshot", "snapshot.storage.k8s.io"))
    return source is not None and (source.kind, source.apiGroup or "") in source_kinds


# -- validation of updates ---------------------------------------------------------------------------------------------


def _validate_claim_update(claim: PersistentVolumeClaim, old: PersistentVolumeClaim) -> FieldErrors:
    new, before = claim.spec, old.spec
    new_class, old_class = (pvc.metadata.annotations.get(OLD_CLASS) for pvc in (claim, old))
    moves_class = _moves_class(claim, old)
    if not moves_class:
        yield from validate_immutable(new_class or "", old_class or "", f"metadata.annotations.{OLD_CLASS}")
    gains_class = (
        before.storageClassName is None
        and new.storageClassName is not None
        and old_class in (None, new.storageClassName)
    )
    new_spec = _undo_permitted_changes(claim, old, may_name_class=moves_class or gains_class)
    old_spec = msgspec.structs.replace(before, volumeName=before.volumeName or new.volumeName)
    if new_spec != old_spec:
        message = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        yield FieldError.forbidden("spec", f"{message}\n{difference(old_spec, new_spec)}")
    if _amount(new) < _amount(before) and _amount(new) <= parse(old.status.capacity.get(_STORAGE, "0")):
        yield FieldError.forbidden(_SIZE, "field can not be less than status.capacity")
    yield from validate_immutable(new.volumeMode, before.volumeMode, "volumeMode")
    if new.volumeAttributesClassName != before.volumeAttributesClassName:
        yield from _validate_attributes_class_removal(new.volumeAttributesClassName, old.status)


def _moves_class(claim: PersistentVolumeClaim, old: PersistentVolumeClaim) -> bool:
    """Whether the storage class moves from the deprecated annotation to the field."""
    annotation = old.metadata.annotations.get(OLD_CLASS)
    is_moved = (
        annotation is not None and old.spec.storageClassName is None and claim.spec.storageClassName == annotation
    )
    return is_moved and claim.metadata.annotations.get(OLD_CLASS, annotation) == annotation


def _undo_permitted_changes(
    claim: PersistentVolumeClaim, old: PersistentVolumeClaim, *, may_name_class: bool
) -> PersistentVolumeClaimSpec:
    """Return the new spec with all permitted changes undone."""
    is_bound, spec, before = claim.status.phase == _BOUND, claim.spec, old.spec
    requests = _with_old_spelling(spec.resources.requests, before.resources.requests)
    if is_bound and requests:
        requests[_STORAGE] = before.resources.requests.get(_STORAGE, "0")
    limits = _with_old_spelling(spec.resources.limits, before.resources.limits)
    return msgspec.structs.replace(
        spec,
        storageClassName=before.storageClassName if may_name_class else spec.storageClassName,
        resources=VolumeResourceRequirements(limits=limits, requests=requests),
        volumeAttributesClassName=before.volumeAttributesClassName if is_bound else spec.volumeAttributesClassName,
    )


def _with_old_spelling(new: dict[str, str], old: dict[str, str]) -> dict[str, str]:
    """Return the new quantities with the old text where only the notation differs."""
    return {name: old[name] if name in old and parse(text) == parse(old[name]) else text for name, text in new.items()}


def _amount(spec: PersistentVolumeClaimSpec) -> Quantity:
    return parse(spec.resources.requests.get(_STORAGE, "0"))


def _validate_attributes_class_removal(class_name: str | None, status: PersistentVolumeClaimStatus) -> FieldErrors:
    """Yield an error if a volume attributes class that is in effect is removed; it can only be replaced."""
    if status.currentVolumeAttributesClassName is None or class_name:
        return
    class_text = "nil" if class_name is None else "empty string"
    text = f"update to {class_text} is forbidden when status.currentVolumeAttributesClassName is not nil"
    yield FieldError.forbidden(_ATTRIBUTES, text)


# -- status ------------------------------------------------------------------------------------------------------------


class PersistentVolumeClaimStatusStrategy(StatusStrategy):
    def validate_update(
        self, ctx: Context, obj: PersistentVolumeClaim, old: PersistentVolumeClaim
    ) -> Iterable[FieldError]:
        status = obj.status
        for name, text in sorted(status.capacity.items()):
            yield from _validate_quantity(text, f"status.capacity[{name}]")
        path = "status.allocatedResourceStatuses"
        for name, word in sorted(status.allocatedResourceStatuses.items()):
            yield from _validate_resource_name(name, path)
            if word not in _RESIZE_STATUSES:
                yield FieldError.not_supported(path, name, _RESIZE_STATUSES)
        path = "status.allocatedResources"
        for name, text in sorted(status.allocatedResources.items()):
            errors = list(_validate_resource_name(name, path))
            yield from errors or _validate_quantity(text, f"{path}[{name}]")


def _validate_quantity(text: str, path: str) -> FieldErrors:
    amount = parse(text).value()
    if amount < 0:
        yield FieldError.invalid(path, amount, "must be a valid resource quantity")


def _validate_resource_name(name: str, path: str) -> FieldErrors:
    messages = names.qualified_name(name)
    for text in messages:
        yield FieldError.invalid(path, name, text)
    if not messages and is_native_resource(name) and name != _STORAGE:
        yield FieldError.not_supported(path, name, [_STORAGE])


_strategy = PersistentVolumeClaimStrategy()
BEHAVIOR = ResourceBehavior(strategy=_strategy, views={"status": PersistentVolumeClaimStatusStrategy(_strategy)})
