"""Server-side apply: the applied object is merged into the live one, and fields that its manager no longer applies and
no other manager owns are removed. A field that another manager has set to a different value is a conflict, unless the
apply is forced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sampan.machinery.apply import sets
from sampan.machinery.apply.checking import check
from sampan.machinery.apply.field_sets import claimed
from sampan.machinery.apply.filters import Filter
from sampan.machinery.apply.forms import Forms, MissingVersion
from sampan.machinery.apply.items import Misfit
from sampan.machinery.apply.managed import Claim, Managed, Owner
from sampan.machinery.apply.merging import merge
from sampan.machinery.apply.removing import remove
from sampan.machinery.apply.schema_changes import with_named_fields
from sampan.machinery.apply.sets import Fields, Path
from sampan.machinery.apply.updating import UNTRACKED, Change, yielded
from sampan.machinery.apply.values import equal

_OWNED = "owned items: failed to convert"


class Conflicts(Exception):
    """Fields that other managers have set to different values, in the order of the managers' entries."""

    def __init__(self, found: list[tuple[Owner, Path]]) -> None:
        super().__init__(f"{len(found)} conflicts")
        self.found = found


@dataclass(frozen=True, slots=True)
class Outcome:
    value: Any
    """The object after the apply; None if it is unchanged."""
    managed: Managed


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """An apply of `applied`, a valid object of `version`, by the manager `whose` at `now`."""

    applied: Any
    version: str
    whose: Owner
    now: str
    force: bool
    forms: Forms
    ignored: Filter

    def to(self, live: Any, managed: Managed) -> Outcome:
        """Apply to a live object in `version`. Raise Conflicts, or Misfit if the live object does not match its
        schema."""
        atom = self.forms.atom(self.version)
        claims = self.ignored.kept(claimed(self.applied, atom))
        before = managed.get(self.whose)
        now_managed = {**managed, self.whose: Claim(claims, self.version, before.time if before is not None else None)}
        merged = merge(live, self.applied, atom)
        value = self._pruned(merged, now_managed, before)
        change = Change(live, value, version=self.version, forms=self.forms, ignored=self.ignored)
        if not self.force:
            self._refuse_conflicts(now_managed, change)
        after = yielded(now_managed, change, besides=self.whose)
        is_changed = not equal(live, value)
        return Outcome(value if is_changed else None, self._signed(after, before, is_changed))

    def _refuse_conflicts(self, managed: Managed, change: Change) -> None:
        conflicts: list[tuple[Owner, Path]] = []
        for owner, claim in managed.items():
            if owner == self.whose:
                continue
            try:
                both = sets.intersection(claim.fields, change.set(claim.api_version))
            except MissingVersion:
                continue
            conflicts += [(owner, path) for path in sets.paths(both)]
        if conflicts:
            raise Conflicts(conflicts)

    def _signed(self, managed: Managed, before: Claim | None, is_changed: bool) -> Managed:
        """Return the managers, without untracked fields in the applier's own set; its time changes only if the object
        does."""
        out = {owner: claim for owner, claim in managed.items() if owner != self.whose}
        own = managed.get(self.whose)
        if own is not None and (fields := sets.difference(own.fields, UNTRACKED)):
            out[self.whose] = Claim(fields, self.version, self.now if is_changed else own.time)
        return out

    # -- pruning -------------------------------------------------------------------------------------------------------

    def _pruned(self, merged: Any, managed: Managed, before: Claim | None) -> Any:
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
        pruned = self._with_owned(whole, pruned, before.api_version, managed)
        pruned = self._with_dangling(whole, pruned, before)
        return self.forms.convert(pruned, self.version)

    def _with_owned(self, whole: Any, pruned: Any, first: str, managed: Managed) -> Any:
        """Restore the fields that any manager owns, version by version, starting with `first`."""
        parts: dict[str, list[Fields]] = {}
        for claim in managed.values():
            parts.setdefault(claim.api_version, []).append(claim.fields)
        owned = {version: sets.union_of(fields) for version, fields in parts.items()}
        for version in sorted(owned, key=lambda version: version != first):
            try:
                atom = self.forms.atom(version)
                whole = self._converted(whole, version, f"{_OWNED} merged object at version {version}")
                pruned = self._converted(pruned, version, f"{_OWNED} pruned object at version {version}")
            except MissingVersion:
                continue
            kept = sets.union(with_named_fields(claimed(pruned, atom), atom), with_named_fields(owned[version], atom))
            gone = sets.difference(with_named_fields(claimed(whole, atom), atom), kept)
            pruned = remove(whole, gone, atom)
        return pruned

    def _with_dangling(self, whole: Any, pruned: Any, before: Claim) -> Any:
        """Restore the fields that this manager never owned, although no manager owns them."""
        atom = self.forms.atom(before.api_version)
        operation = "dangling items: failed to convert pruned object to last applied version"
        pruned = self._converted(pruned, before.api_version, operation)
        gone = sets.difference(
            with_named_fields(claimed(whole, atom), atom), with_named_fields(claimed(pruned, atom), atom)
        )
        return remove(whole, sets.intersection(gone, with_named_fields(before.fields, atom)), atom)

    def _converted(self, value: Any, version: str, what: str) -> Any:
        """Return the object in another version, in which even an intermediate result must match its schema. `what`
        names the operation in the error."""
        if value["apiVersion"] == version:
            return value
        converted = self.forms.convert(value, version)
        try:
            check(converted, self.forms.atom(version))
        except Misfit as misfit:
            raise Misfit(f"failed to prune fields: failed add back {what}: {misfit}") from None
        return converted
