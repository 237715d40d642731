"""Server-side apply: the applied object is merged into the live one, and fields that its manager no longer applies and
no other manager owns are removed. A field that another manager has set to a different value is a conflict, unless the
apply is forced; the error response lists all conflicts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any

from sampan.api.go_compat import gotext
from sampan.machinery import errors
from sampan.machinery.apply import elements, items, sets
from sampan.machinery.apply.atoms import Atom, MissingVersion, VersionedSchemas
from sampan.machinery.apply.field_sets import claim_fields, with_named_fields
from sampan.machinery.apply.items import SchemaMismatch, are_equal
from sampan.machinery.apply.managed import UPDATE, FieldOwner, Managed, VersionedFieldSet
from sampan.machinery.apply.merge import merge
from sampan.machinery.apply.sets import Fields, Path, format_path, is_member
from sampan.machinery.apply.updater import UNTRACKED, FieldFilter, ObjectChange, drop_changed_fields
from sampan.machinery.apply.validation import check


def remove(value: Any, fields: Fields, atom: Atom) -> Any:
    """Return the value without these fields, sharing the unchanged parts. A map or list that becomes empty becomes
    null."""
    if not fields:
        return value
    form = atom.form(value)
    if form == "map":
        return _remove_from_map(value, fields, atom) if isinstance(value, dict) and not atom.is_atomic_map else None
    if form == "list":
        return _remove_from_list(value, fields, atom) if isinstance(value, list) and not atom.is_atomic_list else None
    return value


def _remove_from_map(value: dict[str, Any], fields: Fields, atom: Atom) -> Any:
    out: dict[str, Any] = {}
    for name, part in value.items():
        below = fields.get(elements.field(name))
        if below is None:
            out[name] = part
        elif not is_member(below):
            child = atom.child(name)
            out[name] = remove(part, below, child) if child is not None else part
    return out or None


def _remove_from_list(value: list[Any], fields: Fields, atom: Atom) -> Any:
    out: list[Any] = []
    for item in value:
        below = fields.get(items.element(item, atom))
        if below is None:
            out.append(item)
        elif not is_member(below):
            out.append(remove(item, below, atom.item()))
    return out or None


_OWNED = "owned items: failed to convert"


class ApplyConflicts(Exception):
    """Fields that other managers have set to different values, in the order of the managers' entries."""

    def __init__(self, conflicts: list[tuple[FieldOwner, Path]]) -> None:
        super().__init__(f"{len(conflicts)} conflicts")
        self.conflicts = conflicts


@dataclass(frozen=True, slots=True)
class ApplyResult:
    value: Any
    """The object after the apply; None if it is unchanged."""
    managed: Managed


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOperation:
    """An apply of `applied`, a valid object of `version`, by the manager `whose` at `now`."""

    applied: Any
    version: str
    whose: FieldOwner
    now: str
    force: bool
    forms: VersionedSchemas
    ignored: FieldFilter

    def apply_to(self, live: Any, managed: Managed) -> ApplyResult:
        """Apply to a live object in `version`. Raise Conflicts, or Misfit if the live object does not match its
        schema."""
        atom = self.forms.atom(self.version)
        claims = self.ignored.filter_fields(claim_fields(self.applied, atom))
        before = managed.get(self.whose)
        now_managed = {
            **managed,
            self.whose: VersionedFieldSet(claims, self.version, before.time if before is not None else None),
        }
        merged = merge(live, self.applied, atom)
        value = self._prune(merged, now_managed, before)
        change = ObjectChange(live, value, version=self.version, forms=self.forms, ignored=self.ignored)
        if not self.force:
            self._refuse_conflicts(now_managed, change)
        after = drop_changed_fields(now_managed, change, besides=self.whose)
        is_changed = not are_equal(live, value)
        return ApplyResult(value if is_changed else None, self._update_own_claim(after, before, is_changed))

    def _refuse_conflicts(self, managed: Managed, change: ObjectChange) -> None:
        conflicts: list[tuple[FieldOwner, Path]] = []
        for owner, claim in managed.items():
            if owner == self.whose:
                continue
            try:
                both = sets.intersection(claim.fields, change.written_fields(claim.api_version))
            except MissingVersion:
                continue
            conflicts += [(owner, path) for path in sets.paths(both)]
        if conflicts:
            raise ApplyConflicts(conflicts)

    def _update_own_claim(self, managed: Managed, before: VersionedFieldSet | None, is_changed: bool) -> Managed:
        """Return the managers, with the untracked fields removed from the set of the manager that applies. The time of
        its entry changes only if the object does."""
        out = {owner: claim for owner, claim in managed.items() if owner != self.whose}
        own = managed.get(self.whose)
        if own is not None and (fields := sets.difference(own.fields, UNTRACKED)):
            out[self.whose] = VersionedFieldSet(fields, self.version, self.now if is_changed else own.time)
        return out

    # -- pruning -------------------------------------------------------------------------------------------------------

    def _prune(self, merged: Any, managed: Managed, before: VersionedFieldSet | None) -> Any:
        """Return the merged object without the fields that only this manager owned and no longer applies."""
        if before is None or not before.fields:
            return merged
        if before.api_version == self.version and not sets.difference(before.fields, managed[self.whose].fields):
            return merged
        try:
            atom = self.forms.atom(before.api_version)
            whole = self.forms.convert(merged, before.api_version)
        except MissingVersion:
            return merged
        pruned = remove(whole, with_named_fields(before.fields, atom), atom)
        pruned = self._restore_owned(whole, pruned, before.api_version, managed)
        pruned = self._restore_dangling(whole, pruned, before)
        return self.forms.convert(pruned, self.version)

    def _restore_owned(self, whole: Any, pruned: Any, first: str, managed: Managed) -> Any:
        """Return the pruned object with the fields restored that a manager owns, version by version, starting with
        `first`."""
        parts: dict[str, list[Fields]] = {}
        for claim in managed.values():
            parts.setdefault(claim.api_version, []).append(claim.fields)
        owned = {version: sets.union_of(fields) for version, fields in parts.items()}
        for version in sorted(owned, key=lambda version: version != first):
            try:
                atom = self.forms.atom(version)
                whole = self._convert(whole, version, f"{_OWNED} merged object at version {version}")
                pruned = self._convert(pruned, version, f"{_OWNED} pruned object at version {version}")
            except MissingVersion:
                continue
            owned_fields = sets.union(
                with_named_fields(claim_fields(pruned, atom), atom), with_named_fields(owned[version], atom)
            )
            removed = sets.difference(with_named_fields(claim_fields(whole, atom), atom), owned_fields)
            pruned = remove(whole, removed, atom)
        return pruned

    def _restore_dangling(self, whole: Any, pruned: Any, before: VersionedFieldSet) -> Any:
        """Return the pruned object with the fields restored that this manager never owned, although no manager owns
        them."""
        atom = self.forms.atom(before.api_version)
        operation = "dangling items: failed to convert pruned object to last applied version"
        pruned = self._convert(pruned, before.api_version, operation)
        removed = sets.difference(
            with_named_fields(claim_fields(whole, atom), atom), with_named_fields(claim_fields(pruned, atom), atom)
        )
        return remove(whole, sets.intersection(removed, with_named_fields(before.fields, atom)), atom)

    def _convert(self, value: Any, version: str, subject: str) -> Any:
        """Return the object in another version, in which even an intermediate result must match its schema. `subject`
        names the operation in the error."""
        if value["apiVersion"] == version:
            return value
        converted = self.forms.convert(value, version)
        try:
            check(converted, self.forms.atom(version))
        except SchemaMismatch as misfit:
            raise SchemaMismatch(f"failed to prune fields: failed add back {subject}: {misfit}") from None
        return converted


def conflict_error(conflicts: ApplyConflicts) -> errors.ApiError:
    """Return the error of an apply with conflicts, grouped by manager."""
    ordered = sorted(conflicts.conflicts, key=lambda conflict: conflict[0].identity)
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {format_owner(owner)}",
            "field": format_path(path),
        }
        for owner, path in ordered
    ]
    return errors.apply_conflict(_message(ordered), causes)


def _message(conflicts: list[tuple[FieldOwner, tuple[str, ...]]]) -> str:
    if len(conflicts) == 1:
        owner, path = conflicts[0]
        return f"Apply failed with 1 conflict: conflict with {format_owner(owner)}: {format_path(path)}"
    lines: list[str] = []
    for owner, group in groupby(conflicts, key=lambda conflict: conflict[0]):
        lines.append(f"conflicts with {format_owner(owner)}:")
        lines += [f"- {format_path(path)}" for _, path in group]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


def format_owner(owner: FieldOwner) -> str:
    text = gotext.quote(owner.manager)
    if owner.subresource:
        text += f" with subresource {gotext.quote(owner.subresource)}"
    return f"{text} using {owner.api_version}" if owner.operation == UPDATE else text
