"""Field sets and schemas: adaptation of a set when the schema has changed since it was written, and the declared fields
in a set."""

from __future__ import annotations

from collections.abc import Callable

from sampan.machinery.apply.atoms import Atom
from sampan.machinery.apply.elements import SELF
from sampan.machinery.apply.sets import MEMBER, Fields, is_member


def reconciled(fields: Fields, atom: Atom) -> Fields:
    """Return the set as it would be with the current schema: an owner of a part of what is now a leaf owns the leaf.
    Return the same set if nothing changes."""
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
    """Whether the schema does not specify the contents of a map: sets of such maps are not changed."""
    return not atom.fields and atom.element is not None and atom.element.is_free


def with_named_fields(fields: Fields, atom: Atom | None) -> Fields:
    """Return the set with each declared field that leads to a member added as a member."""
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
