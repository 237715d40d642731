"""The field manager of one kind and path: metadata.managedFields after a write, and the object after an apply.

Values are complete objects in the path's version, without their managedFields, which are passed separately.

Client-side `kubectl apply` stores the last applied object in an annotation. In a migration by `kubectl apply
--server-side`, fields that still have the values in the annotation do not conflict, and the annotation is kept up to
date.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from sampan.api.codec import json
from sampan.api.go_compat import gotext
from sampan.api.resources.resource import GroupVersionKind
from sampan.api.types.meta_v1 import ManagedFieldsEntry
from sampan.machinery import errors
from sampan.machinery.apply import applier, managed, sets
from sampan.machinery.apply.applier import ApplyConflicts, ApplyOperation, ApplyResult
from sampan.machinery.apply.atoms import Atom, VersionedSchemas
from sampan.machinery.apply.comparison import compare
from sampan.machinery.apply.field_sets import FieldSetCache, claim_fields
from sampan.machinery.apply.items import SchemaMismatch
from sampan.machinery.apply.managed import APPLY, UPDATE, BadEntry, Managed
from sampan.machinery.apply.sets import Fields
from sampan.machinery.apply.updater import FieldFilter, ObjectChange, update
from sampan.machinery.apply.validation import check, validate_live

UNKNOWN = "unknown"
BEFORE_FIRST_APPLY = "before-first-apply"
Value = dict[str, Any]
Entries = Sequence[ManagedFieldsEntry]
ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
MANAGER = "kubectl"
"""The name of the field manager whose applies migrate an object from client-side apply."""
_MAX_ANNOTATIONS_BYTES = 256 * 1024


class FieldManager:
    def __init__(
        self,
        *,
        kind: GroupVersionKind,
        subresource: str,
        forms: VersionedSchemas,
        ignored: FieldFilter,
        field_sets: FieldSetCache,
        empty: Value,
    ) -> None:
        """`ignored` are the fields that the path does not let its clients change; `empty` is the base of a new
        object."""
        self._kind, self._version, self._subresource = kind, kind.api_version, subresource
        self._forms, self._ignored, self._known, self._empty = forms, ignored, field_sets, empty

    # -- create and update ---------------------------------------------------------------------------------------------

    def create(self, new: Value, sent: Entries, *, manager: str, now: str) -> list[ManagedFieldsEntry]:
        """Return the managedFields entries of a new object; `sent` are the entries in the request."""
        return self._update(self._empty, new, self.decode_entries(sent) or {}, manager, now)

    def update(
        self, live: Value, new: Value, entries: Entries, sent: Entries, *, is_reset: bool, manager: str, now: str
    ) -> list[ManagedFieldsEntry]:
        """Return the managedFields entries after an update. `entries` are the entries of the live object. `sent` are
        the entries in the request, which take precedence if present and valid. After a reset no manager owns anything
        until the next apply."""
        if self._subresource:
            managers = self.decode_entries(entries)
        elif is_reset or _is_reset(sent):
            managers = {}
        else:
            managers = self.decode_entries(sent) or self.decode_entries(entries)
        return self._update(live, new, managers, manager, now) if managers else []

    def _update(self, live: Value, new: Value, owners: Managed, manager: str, now: str) -> list[ManagedFieldsEntry]:
        """Return the managedFields entries after a write. If the object does not match its schema or is nested too
        deeply, return no entries rather than wrong ones."""
        try:
            return self.encode_entries(self._update_managers(live, new, owners, manager, now))
        except (SchemaMismatch, RecursionError):
            return []

    def _update_managers(self, live: Value, new: Value, owners: Managed, manager: str, now: str) -> Managed:
        change = ObjectChange(live, new, version=self._version, forms=self._forms, ignored=self._ignored)
        owner = managed.owner(manager or UNKNOWN, UPDATE, self._version, self._subresource)
        return update(owners, change, owner=owner, version=self._version, now=now)

    # -- apply ---------------------------------------------------------------------------------------------------------

    def apply(
        self, live: Value | None, applied: Value, managed_entries: Entries, *, manager: str, force: bool, now: str
    ) -> tuple[Value | None, list[ManagedFieldsEntry]]:
        """Return the object after an apply (None if it is unchanged) and its managedFields entries. Raise ApiError if
        the apply fails. `live` is None for an object that does not exist yet."""
        try:
            return self._apply(live, applied, managed_entries, manager, force, now)
        except RecursionError:
            raise errors.bad_request("exceeded max depth") from None

    def _apply(
        self, live: Value | None, applied: Value, managed_entries: Entries, manager: str, force: bool, now: str
    ) -> tuple[Value | None, list[ManagedFieldsEntry]]:
        managers = self._decode_or_raise(managed_entries)
        self._check_kind(applied)
        present = self._empty if live is None else live
        if not managers:
            managers = self._assign_existing_fields(present, now)
        self._check_applied(applied)
        outcome = self._apply_to_live(applied, present, managers, manager, force, now)
        value = outcome.value
        if manager == MANAGER:
            latest = with_last_applied(present if value is None else value, applied)
            value = latest if latest is not present else None
        return value, self.encode_entries(outcome.managed)

    def _assign_existing_fields(self, live: Value, now: str) -> Managed:
        """Return the managers of an object without managedFields: `before-first-apply` owns all existing fields."""
        try:
            return self._update_managers(self._empty, live, {}, BEFORE_FIRST_APPLY, now)
        except SchemaMismatch:
            message = (
                f"failed to convert new object ({self.describe_object(live)}) to smd typed: {self._validate(live)}"
            )
            raise errors.unexpected_error(f"failed to create manager for existing fields: {message}") from None

    def _apply_to_live(
        self, applied: Value, live: Value, owners: Managed, manager: str, force: bool, now: str
    ) -> ApplyResult:
        try:
            return self._application(applied, manager, force, now).apply_to(live, owners)
        except SchemaMismatch as misfit:
            details = self._validate(live)
            message = (
                f"failed to create typed live object ({self.describe_object(live)}): {details}"
                if details
                else str(misfit)
            )
            raise errors.unexpected_error(message) from None
        except ApplyConflicts as refused:
            conflicts: ApplyConflicts | None = refused
            if manager == MANAGER:
                conflicts = conflicts_of_others(refused, live, self._version, self._forms.atom(self._version))
            if conflicts is not None:
                raise applier.conflict_error(conflicts) from None
        return self._application(applied, manager, True, now).apply_to(live, owners)

    def _application(self, applied: Value, manager: str, force: bool, now: str) -> ApplyOperation:
        return ApplyOperation(
            applied=applied,
            version=self._version,
            whose=managed.owner(manager, APPLY, self._version, self._subresource),
            now=now,
            force=force,
            forms=self._forms,
            ignored=self._ignored,
        )

    def _check_kind(self, applied: Value) -> None:
        if (applied.get("apiVersion"), applied.get("kind")) != (self._version, self._kind.kind):
            raise errors.bad_request(f"invalid object type: {_kind_text(applied)}")

    def _check_applied(self, applied: Value) -> None:
        if isinstance(_metadata(applied).get("managedFields"), list):
            raise errors.bad_request("metadata.managedFields must be nil")
        try:
            check(applied, self._forms.atom(self._version))
        except SchemaMismatch as misfit:
            raise errors.unexpected_error(
                f"failed to create typed patch object ({self.describe_object(applied)}): {misfit}"
            ) from None

    def _validate(self, live: Value) -> str:
        return validate_live(live, self._forms.atom(self._version))

    def describe_object(self, value: Value) -> str:
        """Return the name of an object in errors: namespace, name, kind."""
        meta = _metadata(value)
        return f"{_text(meta.get('namespace'))}/{_text(meta.get('name'))}; {_kind_text(value)}"

    # -- entries -------------------------------------------------------------------------------------------------------

    def decode_entries(self, entries: Entries) -> Managed:
        """Return the managers in managedFields entries; empty if one of the entries is invalid."""
        try:
            return managed.decode(entries, self._known.read)
        except BadEntry:
            return {}

    def validate_entries(self, entries: Entries) -> str | None:
        """Return the error message for managedFields entries that no server can have written, or None if they are
        valid."""
        try:
            managed.decode(entries, self._known.read)
        except BadEntry as error:
            return str(error)
        return None

    def encode_entries(self, *owners: Managed) -> list[ManagedFieldsEntry]:
        return managed.encode(chain.from_iterable(part.items() for part in owners), self._known.store)

    def _decode_or_raise(self, entries: Entries) -> Managed:
        try:
            return managed.decode(entries, self._known.read)
        except BadEntry as error:
            raise errors.unexpected_error(f"failed to decode managed fields: {error}") from None


def _is_reset(sent: Entries) -> bool:
    """Whether managedFields in the request is a single empty entry, which resets the managed fields."""
    return len(sent) == 1 and sent[0] == ManagedFieldsEntry()


def _metadata(value: Value) -> dict[str, Any]:
    metadata = value.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _kind_text(value: Value) -> str:
    group, _, version = _text(value.get("apiVersion")).rpartition("/")
    return f"{group}/{version}, Kind={_text(value.get('kind'))}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def conflicts_of_others(
    conflicts: ApplyConflicts, live: dict[str, Any], version: str, atom: Atom
) -> ApplyConflicts | None:
    """Return the conflicts that do not stem from client-side apply; None if there are none."""
    inherited = _find_inherited_fields(live, version, atom)
    if inherited is None:
        return conflicts
    others = [(owner, path) for owner, path in conflicts.conflicts if not sets.has(inherited, path)]
    return ApplyConflicts(others) if others else None


def _find_inherited_fields(live: dict[str, Any], version: str, atom: Atom) -> Fields | None:
    """Return the fields of the last-applied annotation that have the same values in the live object; None if the object
    has no valid annotation."""
    text = _annotations(live).get(ANNOTATION)
    if not text:
        return None
    try:
        value, _ = json.decode_any(text.encode())
        if not isinstance(value, dict) or value.get("apiVersion") != version:
            return None
        check(value, atom)
        comparison = compare(value, live, atom)
    except (json.DecodeError, SchemaMismatch):
        return None
    changed = sets.union(sets.union(comparison.modified, comparison.added), comparison.removed)
    return sets.difference(claim_fields(value, atom), changed)


def with_last_applied(value: dict[str, Any], applied: dict[str, Any]) -> dict[str, Any]:
    """Return the object with its last-applied annotation, if present, updated to the applied object. The annotation is
    removed if the annotations become too large."""
    annotations = _annotations(value)
    if not annotations.get(ANNOTATION):
        return value
    annotations = {**annotations, ANNOTATION: gotext.json_text(_without_annotation(applied)) + "\n"}
    if sum(len(key.encode()) + len(str(text).encode()) for key, text in annotations.items()) > _MAX_ANNOTATIONS_BYTES:
        del annotations[ANNOTATION]
    return {**value, "metadata": {**value["metadata"], "annotations": annotations}}


def _annotations(value: dict[str, Any]) -> dict[str, Any]:
    return (value.get("metadata") or {}).get("annotations") or {}


def _without_annotation(applied: dict[str, Any]) -> dict[str, Any]:
    annotations = _annotations(applied)
    if ANNOTATION not in annotations:
        return applied
    annotations_without_last_applied = {key: text for key, text in annotations.items() if key != ANNOTATION}
    return {**applied, "metadata": {**applied["metadata"], "annotations": annotations_without_last_applied}}
