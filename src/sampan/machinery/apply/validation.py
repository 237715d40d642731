"""Validation of an object against its schema, with the error messages of structured-merge-diff."""

from typing import Any

from sampan.api import limits
from sampan.api.go_compat import gotext
from sampan.machinery.apply import elements, items
from sampan.machinery.apply.atoms import Atom
from sampan.machinery.apply.items import SchemaMismatch

Place = tuple[Any, str] | None
"""The position of a value in an object: the position of its parent, and the path element from there. The positions of
several errors share those of their common parents."""
FieldFailure = tuple[Place, str]
"""The path of an invalid field and the error message."""

_TWICE = "duplicate entries for key "


def check(value: Any, atom: Atom) -> None:
    """Raise Misfit with all errors of an applied object, in which list items may not be duplicated."""
    if errors := _validate(value, atom, None):
        raise SchemaMismatch(_join_texts(errors))


def validate_live(value: Any, atom: Atom) -> str:
    """Return the errors of a live object, in which list items may be duplicated; empty if there are none."""
    errors = [error for error in _validate(value, atom, None) if not error[1].startswith(_TWICE)]
    return _join_texts(errors) if errors else ""


def _join_texts(errors: list[FieldFailure]) -> str:
    """Return the text of all errors, as far as a response has room for them."""
    if len(errors) == 1:
        return _error_text(*errors[0])
    lines = ["errors:"]
    character_budget = limits.VALIDATION_ERROR_CHARACTERS
    for error in errors:
        lines.append(f"  {_error_text(*error)}")
        character_budget -= len(lines[-1])
        if character_budget < 0:
            break
    return "\n".join(lines)


def _error_text(place: Place, text: str) -> str:
    path = _path(place)
    return f"{path}: {text}" if path else text


def _path(place: Place) -> str:
    steps: list[str] = []
    while place is not None:
        steps.append(elements.format_element(place[1]))
        place = place[0]
    return "".join(reversed(steps))


def _validate(value: Any, atom: Atom, path: Place) -> list[FieldFailure]:
    form = atom.form(value)
    if value is None:
        return []
    if form == "scalar":
        text = _validate_scalar(value, atom)
        return [(path, text)] if text else []
    if form == "map":
        return (
            _validate_map(value, atom, path)
            if isinstance(value, dict)
            else [(path, f"expected map, got {_format_pointer(value)}")]
        )
    return (
        _validate_list(value, atom, path)
        if isinstance(value, list)
        else [(path, f"expected list, got {_format_pointer(value)}")]
    )


def _validate_scalar(value: Any, atom: Atom) -> str:
    match atom.scalar:
        case "numeric" if isinstance(value, bool) or not isinstance(value, int | float):
            return f"expected numeric (int or float), got {gotext.type_name(value)}"
        case "string" if not isinstance(value, str):
            return f"expected string, got &value.valueUnstructured{{Value:{_format_go_syntax(value)}}}"
        case "boolean" if not isinstance(value, bool):
            return f"expected boolean, got {_format_pointer(value)}"
        case "untyped" if not isinstance(value, str | bool | int | float):
            return f"expected any scalar, got {_format_pointer(value)}"
    return ""


def _validate_map(value: dict[str, Any], atom: Atom, field_path: Place) -> list[FieldFailure]:
    errors: list[FieldFailure] = []
    for name in elements.sort_names(value):
        child = atom.child(name)
        path = (field_path, elements.field(name))
        if child is None:
            return [*errors, (path, "field not declared in schema")]
        errors += _validate(value[name], child, path)
    return errors


def _validate_list(value: list[Any], atom: Atom, path: Place) -> list[FieldFailure]:
    errors: list[FieldFailure] = []
    below, keys = atom.item(), set()
    for index, item in enumerate(value):
        element = f"i:{index}"
        if not atom.is_atomic_list:
            try:
                element = items.element(item, atom)
            except SchemaMismatch as misfit:
                return [*errors, (path, f"element {index}: {misfit}")]
            if element in keys:
                errors.append((path, _TWICE + elements.format_element(element)))
            keys.add(element)
        errors += _validate(item, below, (path, element))
    return errors


def _format_pointer(value: Any) -> str:
    """Format a value as Go prints a pointer to its wrapped value."""
    return f"&{{{gotext.value(gotext.with_float_numbers(value))}}}"


def _format_go_syntax(value: Any) -> str:
    """Format a value as Go's `%#v` does."""
    if isinstance(value, dict):
        parts = ", ".join(f"{gotext.quote(key)}:{_format_go_syntax(value[key])}" for key in sorted(value))
        return f"map[string]interface {{}}{{{parts}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_format_go_syntax, value))}}}"
    if value is None:
        return "interface {}(nil)"
    if isinstance(value, gotext.GoValue):
        return value.syntax
    return gotext.quote(value) if isinstance(value, str) else gotext.value(gotext.with_float_numbers(value))
