"""Removal of fields from a value."""

from typing import Any

from sampan.machinery.apply import elements, items
from sampan.machinery.apply.atoms import Atom
from sampan.machinery.apply.sets import Fields, is_member


def remove(value: Any, fields: Fields, atom: Atom) -> Any:
    """Return the value without these fields, sharing the rest. A map or list that becomes empty becomes null."""
    if not fields:
        return value
    form = atom.form(value)
    if form == "map":
        return _from_map(value, fields, atom) if isinstance(value, dict) and not atom.is_atomic_map else None
    if form == "list":
        return _from_list(value, fields, atom) if isinstance(value, list) and not atom.is_atomic_list else None
    return value


def _from_map(value: dict[str, Any], fields: Fields, atom: Atom) -> Any:
    out: dict[str, Any] = {}
    for name, part in value.items():
        below = fields.get(elements.field(name))
        if below is None:
            out[name] = part
        elif not is_member(below):
            child = atom.child(name)
            out[name] = remove(part, below, child) if child is not None else part
    return out or None


def _from_list(value: list[Any], fields: Fields, atom: Atom) -> Any:
    out: list[Any] = []
    for item in value:
        below = fields.get(items.element(item, atom))
        if below is None:
            out.append(item)
        elif not is_member(below):
            out.append(remove(item, below, atom.item()))
    return out or None
