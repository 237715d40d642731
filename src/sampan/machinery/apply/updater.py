"""Field ownership after a create, update or patch: the writer takes the fields that it changes, and other managers lose
them.

A `FieldFilter` excludes the fields that a request path does not let its clients change: they are never owned through
that path."""

from typing import Any, Protocol

from sampan.machinery.apply import sets
from sampan.machinery.apply.atoms import MissingVersion, VersionedSchemas
from sampan.machinery.apply.comparison import Comparison, compare
from sampan.machinery.apply.elements import SELF
from sampan.machinery.apply.managed import UPDATE, FieldOwner, Managed, VersionedFieldSet, owner
from sampan.machinery.apply.sets import Fields, is_member, node
from sampan.machinery.apply.validation import check

ANY = "*"
"""The element of a path pattern that matches every element."""


class FieldFilter(Protocol):
    def filter_fields(self, fields: Fields) -> Fields:
        """Return the fields that may be owned through the request path."""


class AllFieldsFilter:
    def filter_fields(self, fields: Fields) -> Fields:
        return fields


class ExcludedFieldsFilter:
    """A filter that removes some fields and everything below them."""

    def __init__(self, *paths: str) -> None:
        """`paths` are written like `metadata.labels`."""
        self._reset = sets.from_paths(*(tuple(f"f:{name}" for name in path.split(".")) for path in paths))

    def filter_fields(self, fields: Fields) -> Fields:
        return sets.recursive_difference(fields, self._reset)


class IncludedFieldsFilter:
    """A filter that keeps some fields, everything below them, and the fields on the way to them."""

    def __init__(self, *paths: str) -> None:
        """`paths` are written like `spec.containers.*.resources`."""
        steps = (path.split(".") for path in paths)
        self._pattern = sets.from_paths(
            *(tuple(name if name == ANY else f"f:{name}" for name in path) for path in steps)
        )

    def filter_fields(self, fields: Fields) -> Fields:
        return _select_matching(fields, self._pattern)


def _select_matching(fields: Fields, pattern: Fields) -> Fields:
    if not pattern:
        return fields
    out: Fields = {}
    for element, below in fields.items():
        deeper = pattern.get(element, pattern.get(ANY))
        if deeper is None or element == SELF:
            continue
        children = _select_matching({key: value for key, value in below.items() if key != SELF}, deeper)
        if children or is_member(below):
            out[element] = node(children, is_member=is_member(below))
    return out


MAX_UPDATERS = 10
OLD_UPDATERS = "ancient-changes"

_UNTRACKED = (
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
)
UNTRACKED = sets.from_paths(
    ("f:apiVersion",), ("f:kind",), ("f:metadata",), *(("f:metadata", f"f:{name}") for name in _UNTRACKED)
)
"""The fields that no manager ever owns, such as the name and the resource version."""


class ObjectChange:
    """Two states of an object, compared in each version on demand. In a version other than their own, duplicate list
    items raise Misfit: kube-apiserver is as strict there."""

    def __init__(self, old: Any, new: Any, *, version: str, forms: VersionedSchemas, ignored: FieldFilter) -> None:
        """`old` and `new` are in `version`. Raise Misfit if they cannot be compared."""
        self._old, self._new, self._forms, self._filter = old, new, forms, ignored
        self.comparison = self._filter_comparison(compare(old, new, forms.atom(version)))
        self._set = {version: _written_fields(self.comparison)}
        self._touched = {version: _changed_fields(self.comparison)}

    def written_fields(self, version: str) -> Fields:
        """Return the fields that were added or modified. Raise MissingVersion."""
        self._compare_version(version)
        return self._set[version]

    def changed_fields(self, version: str) -> Fields:
        """Return the fields that were added, modified or removed. Raise MissingVersion."""
        self._compare_version(version)
        return self._touched[version]

    def _compare_version(self, version: str) -> None:
        if version not in self._set:
            atom = self._forms.atom(version)
            old, new = self._forms.convert(self._old, version), self._forms.convert(self._new, version)
            check(old, atom)
            check(new, atom)
            comparison = self._filter_comparison(compare(old, new, atom))
            self._set[version], self._touched[version] = _written_fields(comparison), _changed_fields(comparison)

    def _filter_comparison(self, comparison: Comparison) -> Comparison:
        filtered = self._filter.filter_fields
        return (
            Comparison(filtered(comparison.added), filtered(comparison.modified), filtered(comparison.removed))
            if comparison
            else comparison
        )


def _written_fields(comparison: Comparison) -> Fields:
    return sets.union(comparison.modified, comparison.added) if comparison.modified else comparison.added


def _changed_fields(comparison: Comparison) -> Fields:
    return (
        sets.union(_written_fields(comparison), comparison.removed)
        if comparison.removed
        else _written_fields(comparison)
    )


def drop_changed_fields(managed: Managed, change: ObjectChange, *, besides: FieldOwner | None = None) -> Managed:
    """Return the managers without the fields that a change takes from them; the manager `besides` loses nothing.
    Managers without fields, or with a version that no longer exists, are removed."""
    out: Managed = {}
    for field_owner, claim in managed.items():
        if field_owner == besides:
            out[field_owner] = claim
            continue
        try:
            remainder = sets.difference(claim.fields, change.changed_fields(claim.api_version))
        except MissingVersion:
            continue
        if remainder is claim.fields:
            out[field_owner] = claim
        else:
            out[field_owner] = claim._replace(fields=remainder, raw=None)
    return {field_owner: claim for field_owner, claim in out.items() if claim.fields}


def update(managed: Managed, change: ObjectChange, *, owner: FieldOwner, version: str, now: str) -> Managed:
    """Return the managers after a create, update or patch. The time changes only for a manager that took a field."""
    out = drop_changed_fields(managed, change)
    claimed = sets.difference(change.written_fields(version), UNTRACKED)
    if claimed:
        before = out.get(owner)
        if before is None:
            out[owner] = VersionedFieldSet(claimed, version, now)
        else:
            fields = sets.union(before.fields, claimed)
            raw = before.raw if fields is before.fields else None
            out[owner] = VersionedFieldSet(fields, version, now, raw)
    return _merge_oldest_updaters(out)


def _merge_oldest_updaters(managed: Managed) -> Managed:
    """If there are too many updating managers, merge the oldest into one for each version (`ancient-changes`)."""
    updaters = [updater for updater in managed if updater.operation == UPDATE]
    surplus = len(updaters) - MAX_UPDATERS
    if surplus <= 0:
        return managed
    out = dict(managed)
    updaters.sort(key=lambda updater: (managed[updater].time or "", updater.identity))
    first: dict[str, FieldOwner] = {}
    joined: dict[FieldOwner, list[Fields]] = {}
    for updater in updaters:
        if surplus <= 0:
            break
        claim = managed[updater]
        if claim.api_version not in first:
            first[claim.api_version] = updater
            continue
        bucket = owner(OLD_UPDATERS, UPDATE, claim.api_version, "")
        if bucket not in out:
            out[bucket] = out.pop(first[claim.api_version])
        surplus -= 1
        if updater == bucket:
            del out[bucket]
            joined.pop(bucket, None)
            continue
        joined.setdefault(bucket, [out[bucket].fields]).append(claim.fields)
        out[bucket] = VersionedFieldSet(sets.EMPTY, claim.api_version, claim.time)
        del out[updater]
    for bucket, parts in joined.items():
        out[bucket] = out[bucket]._replace(fields=sets.union_of(parts))
    return out
