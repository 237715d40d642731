"""Whether an object is as its schema says; what is told of one that is not."""

from typing import Any

from sampan.api import gotext
from sampan.machinery.apply import elements, items
from sampan.machinery.apply.atoms import Atom
from sampan.machinery.apply.items import Misfit

Fault = tuple[str, str]
"""Where, and what."""

_TWICE = "duplicate entries for key "


def check(value: Any, atom: Atom) -> None:
    """Misfit with all faults of an applied object. An item of a list may not come twice."""
    if faults := _faults(value, atom):
        raise Misfit(_all_told(faults))


def faults_of_live(value: Any, atom: Atom) -> str:
    """What is wrong with a live object, in which items may come twice; empty if nothing is."""
    faults = [fault for fault in _faults(value, atom) if not fault[1].startswith(_TWICE)]
    return _all_told(faults) if faults else ""


def _all_told(faults: list[Fault]) -> str:
    if len(faults) == 1:
        return _told(*faults[0])
    return "\n".join(["errors:", *(f"  {_told(*fault)}" for fault in faults)])


def _told(path: str, text: str) -> str:
    return f"{path}: {text}" if path else text


def _faults(value: Any, atom: Atom) -> list[Fault]:
    form = atom.form(value)
    if value is None:
        return []
    if form == "scalar":
        return _scalar_faults(value, atom)
    if form == "map":
        return _map_faults(value, atom) if isinstance(value, dict) else [("", f"expected map, got {_shown(value)}")]
    return _list_faults(value, atom) if isinstance(value, list) else [("", f"expected list, got {_shown(value)}")]


def _scalar_faults(value: Any, atom: Atom) -> list[Fault]:
    match atom.scalar:
        case "numeric" if isinstance(value, bool) or not isinstance(value, int | float):
            return [("", f"expected numeric (int or float), got {gotext.type_name(value)}")]
        case "string" if not isinstance(value, str):
            return [("", f"expected string, got &value.valueUnstructured{{Value:{_syntax(value)}}}")]
        case "boolean" if not isinstance(value, bool):
            return [("", f"expected boolean, got {_shown(value)}")]
        case "untyped" if isinstance(value, dict | list):
            return [("", f"expected any scalar, got {_shown(value)}")]
    return []


def _map_faults(value: dict[str, Any], atom: Atom) -> list[Fault]:
    faults: list[Fault] = []
    for name in sorted(value):
        child = atom.child(name)
        if child is None:
            return [*faults, (f".{name}", "field not declared in schema")]
        faults += [(f".{name}{path}", text) for path, text in _faults(value[name], child)]
    return faults


def _list_faults(value: list[Any], atom: Atom) -> list[Fault]:
    faults: list[Fault] = []
    below, seen = atom.item(), set()
    for index, item in enumerate(value):
        at = f"i:{index}"
        if not atom.is_atomic_list:
            try:
                at = items.element(item, atom)
            except Misfit as misfit:
                return [*faults, ("", f"element {index}: {misfit}")]
            if at in seen:
                faults.append(("", _TWICE + elements.shown(at)))
            seen.add(at)
        faults += [(elements.shown(at) + path, text) for path, text in _faults(item, below)]
    return faults


def _shown(value: Any) -> str:
    """How Go prints a pointer to its wrapped value."""
    return f"&{{{gotext.value(_as_read(value))}}}"


def _syntax(value: Any) -> str:
    """`%#v`."""
    if isinstance(value, dict):
        parts = ", ".join(f"{gotext.quote(key)}:{_syntax(value[key])}" for key in sorted(value))
        return f"map[string]interface {{}}{{{parts}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_syntax, value))}}}"
    if value is None:
        return "interface {}(nil)"
    return gotext.quote(value) if isinstance(value, str) else gotext.value(_as_read(value))


def _as_read(value: Any) -> Any:
    """The real server reads all numbers of an applied object as floats, and prints them so."""
    if isinstance(value, dict):
        return {key: _as_read(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_as_read(part) for part in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


__all__ = ["check", "faults_of_live"]
