"""Sets beside a schema: what they must become when the schema has changed since they were written, and which of their
ways are fields with a name."""

from __future__ import annotations

from collections.abc import Callable

from sampan.machinery.apply.atoms import Atom
from sampan.machinery.apply.elements import SELF
from sampan.machinery.apply.sets import MEMBER, Fields, is_member


def reconciled(fields: Fields, atom: Atom) -> Fields:
    """The set as it would be had the schema always been so: who owns a part of what is one leaf now, owns the leaf.
    The set itself if that changes nothing."""
    return _below(fields, atom)


def _below(fields: Fields, atom: Atom) -> Fields:
    if atom.first == "map" and atom.fields is not None and not _is_open(atom):
        return _children(fields, lambda element: atom.child(element[2:]) if element[:2] == "f:" else atom.element)
    if atom.first == "list" and atom.is_list:
        item = atom.item()
        return _children(fields, lambda element: item)
    return fields


def _children(fields: Fields, child: Callable[[str], Atom | None]) -> Fields:
    out: Fields | None = None
    for element, below in fields.items():
        if element == SELF or not below or (atom := child(element)) is None:
            continue
        changed = MEMBER if _is_leaf(atom) else _below(below, atom)
        if changed is not below:
            out = dict(fields) if out is None else out
            out[element] = changed
    return fields if out is None else out


def _is_leaf(atom: Atom) -> bool:
    if atom.first == "map":
        return atom.is_atomic_map and not _is_open(atom)
    return atom.first == "list" and atom.is_atomic_list


def _is_open(atom: Atom) -> bool:
    """A map of which no schema says what is in it: sets of such ones are left as they are."""
    return not atom.fields and atom.element is not None and atom.element.is_free


def with_named_fields(fields: Fields, atom: Atom | None) -> Fields:
    """The set, with each declared field that leads to a member a member itself."""
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


__all__ = ["reconciled", "with_named_fields"]
