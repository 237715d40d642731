"""The set of fields of a value, and a cache of such sets.

There are two kinds of sets. The fields that an applied object owns (`claim_fields`): its leaves, and the list items and
map entries that it names. The fields of a new value (`collect_fields`): each place in it, including maps and lists
themselves.

The cache finds sets by their encoding: objects of one kind, and the entries of one object from write to write, mostly
have the same sets.

A set is adapted when the schema has changed since it was written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sampan.host.bounded_cache import BoundedCache
from sampan.machinery.apply import elements, items, sets
from sampan.machinery.apply.atoms import Atom, MissingVersion, VersionedSchemas
from sampan.machinery.apply.elements import SELF
from sampan.machinery.apply.sets import MEMBER, Fields, is_member, node, sort_level


def claim_fields(value: Any, atom: Atom) -> Fields:
    """Return the fields that a manager owns after it has applied this object."""
    return _claim(value, atom) or {}


def _claim(value: Any, atom: Atom) -> Fields | None:
    """Return the node with the fields that applying the value owns; None if it owns nothing."""
    form = atom.form(value)
    if form == "scalar":
        return MEMBER
    if form == "map":
        if atom.is_atomic_map:
            return MEMBER
        return _claim_map(value, atom) if isinstance(value, dict) else None
    if atom.is_atomic_list:
        return MEMBER
    return _claim_list(value, atom) if isinstance(value, list) else None


def _claim_map(value: dict[str, Any], atom: Atom) -> Fields | None:
    out: Fields = {}
    for name in elements.sort_names(value):
        part = value[name]
        child = atom.child(name)
        fields = _claim(part, child) if child is not None else MEMBER
        if part is None or part == {} or not atom.declares(name):
            fields = node(fields or MEMBER, is_member=True)
        if fields is not None:
            out[elements.field(name)] = fields
    return out or None


def _claim_list(value: list[Any], atom: Atom) -> Fields | None:
    out: Fields = {}
    for element, group in items.group_by_element(value, atom).items():
        below = _claim(group[0], atom.item()) if len(group) == 1 else None
        out[element] = node(below or MEMBER, is_member=True)
    return sort_level(out) or None


def collect_fields(value: Any, atom: Atom) -> Fields:
    """Return the node with all fields of a value that was added or removed."""
    if isinstance(value, dict):
        if not value or atom.is_atomic_map or atom.fields is None:
            return MEMBER
        return _collect_map_fields(value, atom)
    if isinstance(value, list):
        return MEMBER if not value or atom.is_atomic_list or not atom.is_list else _collect_list_fields(value, atom)
    return MEMBER


def _collect_map_fields(value: dict[str, Any], atom: Atom) -> Fields:
    out: Fields = {elements.SELF: MEMBER}
    declared, remainder = atom.fields, atom.element
    assert declared is not None
    for name in elements.sort_names(value):
        part = value[name]
        if isinstance(part, dict | list) and part:
            child = declared[name] or remainder
            out["f:" + name] = collect_fields(part, child) if child is not None else MEMBER
        else:
            out["f:" + name] = MEMBER
    return out


def _collect_list_fields(value: list[Any], atom: Atom) -> Fields:
    below = atom.item()
    out: Fields = {elements.SELF: MEMBER}
    for element, group in items.group_by_element(value, atom).items():
        out[element] = collect_fields(group[0], below) if len(group) == 1 else MEMBER
    return sort_level(out)


_BYTES_OF_SET = 12
"""The memory that a set takes for each byte of its encoded form."""
_CachedSet = tuple[Fields, bytes]
"""A set, and the bytes that this server would write for it."""


class FieldSetCache:
    """The cached sets of one kind, reconciled with its current schema."""

    def __init__(self, forms: VersionedSchemas) -> None:
        self._forms = forms
        self._known: BoundedCache[tuple[bytes, str], _CachedSet] = BoundedCache(
            self._decode, max_entries=256, max_entry_bytes=100 << 10, measure=_measure_set
        )

    def read(self, raw: bytes, api_version: str) -> tuple[Fields, bytes]:
        """Return the set that the bytes of a FieldsV1 contain, and the bytes that this server would write for it. Raise
        BadFields."""
        return self._known[raw, api_version]

    def store(self, raw: bytes, api_version: str, fields: Fields) -> None:
        """Cache a set under the bytes that encode it."""
        if (raw, api_version) not in self._known:
            self._known.keep((raw, api_version), (fields, raw))

    def _decode(self, raw_and_version: tuple[bytes, str]) -> _CachedSet:
        raw, api_version = raw_and_version
        fields = self._reconcile(sets.decode(raw), api_version)
        return fields, sets.encode(fields)

    def _reconcile(self, fields: Fields, api_version: str) -> Fields:
        try:
            return reconcile_fields(fields, self._forms.atom(api_version))
        except MissingVersion:
            return fields


def _measure_set(entry: _CachedSet, limit: int) -> int:
    return _BYTES_OF_SET * len(entry[1])


def reconcile_fields(fields: Fields, atom: Atom) -> Fields:
    """Return the set as it would be with the current schema. If a map or list has become a leaf, an owner of a part of
    it owns the leaf. Return the same set if nothing changes."""
    return _reconcile_node(fields, atom)


def _reconcile_node(fields: Fields, atom: Atom) -> Fields:
    if atom.first == "map" and atom.fields is not None and not _is_open(atom):
        return _reconcile_children(
            fields, lambda element: atom.child(element[2:]) if element[:2] == "f:" else atom.element
        )
    if atom.first == "list" and atom.is_list:
        item = atom.item()
        return _reconcile_children(fields, lambda element: item)
    return fields


def _reconcile_children(fields: Fields, child: Callable[[str], Atom | None]) -> Fields:
    out: Fields | None = None
    for element, below in fields.items():
        if element == SELF or not below or (atom := child(element)) is None:
            continue
        changed = MEMBER if _is_leaf(atom) else _reconcile_node(below, atom)
        if changed is not below:
            out = dict(fields) if out is None else out
            out[element] = changed
    return fields if out is None else out


def _is_leaf(atom: Atom) -> bool:
    if atom.first == "map":
        return atom.is_atomic_map and not _is_open(atom)
    return atom.first == "list" and atom.is_atomic_list


def _is_open(atom: Atom) -> bool:
    """Whether the schema does not specify the contents of a map: sets of such maps are not changed."""
    return not atom.fields and atom.element is not None and atom.element.is_free


def with_named_fields(fields: Fields, atom: Atom | None) -> Fields:
    """Return the set with the declared fields on the way to each member added as members."""
    out: Fields = {}
    for element, below in fields.items():
        if element == SELF:
            out[element] = below
            continue
        is_field = element[:2] == "f:" and atom is not None and atom.fields is not None
        deeper = with_named_fields(below, _step(element, atom)) if below else below
        if is_field and atom is not None and not is_member(below) and atom.declares(element[2:]):
            deeper = {SELF: MEMBER, **deeper}
        out[element] = deeper
    return out


def _step(element: str, atom: Atom | None) -> Atom | None:
    if atom is None:
        return None
    if element[:2] == "f:":
        return atom.child(element[2:]) if atom.fields is not None else None
    return atom.item() if element[:2] == "k:" and atom.is_list else None
