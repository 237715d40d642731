"""The field manager of one kind and path: metadata.managedFields after a write, and the object after an apply.

Values are complete objects in the path's version, without their managedFields, which are passed separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from sampan.api.resource import GroupVersionKind
from sampan.api.types.meta_v1 import ManagedFieldsEntry
from sampan.machinery import errors
from sampan.machinery.apply import applier, last_applied, managed
from sampan.machinery.apply.applier import Application, ApplyResult, Conflicts
from sampan.machinery.apply.atoms import Forms
from sampan.machinery.apply.field_sets import KnownSets
from sampan.machinery.apply.items import Misfit
from sampan.machinery.apply.managed import APPLY, UPDATE, BadEntry, Managed
from sampan.machinery.apply.updater import Filter, ObjectChange, update
from sampan.machinery.apply.validation import check, validate_live

UNKNOWN = "unknown"
BEFORE_FIRST_APPLY = "before-first-apply"

Value = dict[str, Any]
Entries = Sequence[ManagedFieldsEntry]


class FieldManager:
    def __init__(
        self,
        *,
        kind: GroupVersionKind,
        subresource: str,
        forms: Forms,
        ignored: Filter,
        known: KnownSets,
        empty: Value,
    ) -> None:
        """`ignored` are the fields that the path does not let its clients change; `empty` is the base of a new
        object."""
        self._kind, self._version, self._subresource = kind, kind.api_version, subresource
        self._forms, self._ignored, self._known, self._empty = forms, ignored, known, empty

    # -- create and update ---------------------------------------------------------------------------------------------

    def create(self, new: Value, sent: Entries, *, manager: str, now: str) -> list[ManagedFieldsEntry]:
        """Return the entries of a new object; `sent` are those in the request."""
        return self._update(self._empty, new, self.decoded(sent) or {}, manager, now)

    def update(
        self, live: Value, new: Value, kept: Entries, sent: Entries, *, is_reset: bool, manager: str, now: str
    ) -> list[ManagedFieldsEntry]:
        """Return the entries after an update. `kept` are those of the live object, `sent` those of the new one, which
        take precedence if present and valid. After a reset no manager owns anything until the next apply."""
        if self._subresource:
            managers = self.decoded(kept)
        elif is_reset or _is_reset(sent):
            managers = {}
        else:
            managers = self.decoded(sent) or self.decoded(kept)
        return self._update(live, new, managers, manager, now) if managers else []

    def _update(self, live: Value, new: Value, owners: Managed, manager: str, now: str) -> list[ManagedFieldsEntry]:
        """Return the entries, or none rather than wrong ones if the object does not match its schema or is nested too
        deeply."""
        try:
            return self.encoded(self._updated(live, new, owners, manager, now))
        except (Misfit, RecursionError):
            return []

    def _updated(self, live: Value, new: Value, owners: Managed, manager: str, now: str) -> Managed:
        change = ObjectChange(live, new, version=self._version, forms=self._forms, ignored=self._ignored)
        owner = managed.owner(manager or UNKNOWN, UPDATE, self._version, self._subresource)
        return update(owners, change, whose=owner, version=self._version, now=now)

    # -- apply ---------------------------------------------------------------------------------------------------------

    def apply(
        self, live: Value | None, applied: Value, kept: Entries, *, manager: str, force: bool, now: str
    ) -> tuple[Value | None, list[ManagedFieldsEntry]]:
        """Return the object after an apply, None if it is unchanged, and its entries. Raise ApiError if the apply
        fails. `live` is None for an object that does not exist yet."""
        try:
            return self._apply(live, applied, kept, manager, force, now)
        except RecursionError:
            raise errors.bad_request("exceeded max depth") from None

    def _apply(
        self, live: Value | None, applied: Value, kept: Entries, manager: str, force: bool, now: str
    ) -> tuple[Value | None, list[ManagedFieldsEntry]]:
        managers = self._readable(kept)
        self._check_kind(applied)
        present = self._empty if live is None else live
        if not managers:
            managers = self._as_found(present, now)
        self._check_applied(applied)
        outcome = self._applied(applied, present, managers, manager, force, now)
        value = outcome.value
        if manager == last_applied.MANAGER:
            renewed = last_applied.renewed(present if value is None else value, applied)
            value = renewed if renewed is not present else None
        return value, self.encoded(outcome.managed)

    def _as_found(self, live: Value, now: str) -> Managed:
        """Return the existing fields, owned by the `before-first-apply` manager."""
        try:
            return self._updated(self._empty, live, {}, BEFORE_FIRST_APPLY, now)
        except Misfit:
            message = f"failed to convert new object ({self.title(live)}) to smd typed: {self._validate(live)}"
            raise errors.unexpected(f"failed to create manager for existing fields: {message}") from None

    def _applied(
        self, applied: Value, live: Value, owners: Managed, manager: str, force: bool, now: str
    ) -> ApplyResult:
        try:
            return self._application(applied, manager, force, now).to(live, owners)
        except Misfit as misfit:
            details = self._validate(live)
            message = f"failed to create typed live object ({self.title(live)}): {details}" if details else str(misfit)
            raise errors.unexpected(message) from None
        except Conflicts as refused:
            remaining: Conflicts | None = refused
            if manager == last_applied.MANAGER:
                remaining = last_applied.remaining(refused, live, self._version, self._forms.atom(self._version))
            if remaining is not None:
                raise applier.refusal(remaining) from None
        return self._application(applied, manager, True, now).to(live, owners)

    def _application(self, applied: Value, manager: str, force: bool, now: str) -> Application:
        return Application(
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
        except Misfit as misfit:
            raise errors.unexpected(f"failed to create typed patch object ({self.title(applied)}): {misfit}") from None

    def _validate(self, live: Value) -> str:
        return validate_live(live, self._forms.atom(self._version))

    def title(self, value: Value) -> str:
        """Return the name of an object in errors: namespace, name, kind."""
        meta = _metadata(value)
        return f"{_text(meta.get('namespace'))}/{_text(meta.get('name'))}; {_kind_text(value)}"

    # -- entries -------------------------------------------------------------------------------------------------------

    def decoded(self, entries: Entries) -> Managed:
        """Return the managers in the entries; empty if one of them is invalid."""
        try:
            return managed.decode(entries, self._known.read)
        except BadEntry:
            return {}

    def error_of(self, entries: Entries) -> str | None:
        """Return the error of entries that the server did not write, or None."""
        try:
            managed.decode(entries, self._known.read)
        except BadEntry as error:
            return str(error)
        return None

    def encoded(self, *owners: Managed) -> list[ManagedFieldsEntry]:
        return managed.encode(chain.from_iterable(part.items() for part in owners), self._known.note)

    def _readable(self, entries: Entries) -> Managed:
        try:
            return managed.decode(entries, self._known.read)
        except BadEntry as error:
            raise errors.unexpected(f"failed to decode managed fields: {error}") from None


def _is_reset(sent: Entries) -> bool:
    """Whether the only entry is empty, which resets the managed fields."""
    return len(sent) == 1 and sent[0] == ManagedFieldsEntry()


def _metadata(value: Value) -> dict[str, Any]:
    metadata = value.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _kind_text(value: Value) -> str:
    group, _, version = _text(value.get("apiVersion")).rpartition("/")
    return f"{group}/{version}, Kind={_text(value.get('kind'))}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
