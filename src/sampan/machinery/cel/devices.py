"""Selectors of devices: expressions over `device`, as the server checks them and the scheduler evaluates them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

from sampan.machinery.cel.expression import CelError, Environment, Expression
from sampan.machinery.cel.lists import FUNCTIONS as OF_LISTS
from sampan.machinery.cel.quantities import FUNCTIONS as OF_QUANTITIES
from sampan.machinery.cel.shapes import MapOf, ObjectOf, load
from sampan.machinery.cel.syntax import Node

_BY_DOMAIN = ("attributes", "capacity")
_DEVICE = ObjectOf(
    "kubernetes.DRADevice",
    {
        "driver": "string",
        "allowMultipleAllocations": "bool",
        **dict.fromkeys(_BY_DOMAIN, MapOf(MapOf("dyn"))),
    },
)
_KEPT = 512


@cache
def _environment() -> Environment:
    return Environment(variables={"device": _DEVICE}, functions=(*OF_QUANTITIES, *OF_LISTS), most_kept=_KEPT)


class DeviceExpression:
    def __init__(self, made: Expression) -> None:
        self._made, self._domains = made, frozenset(_domains(made.tree))

    def matches(self, device: Mapping[str, Any]) -> bool:
        """`device` has values by the names of its fields; CelError if it cannot be told. A domain of which the device
        has nothing is empty."""
        if self._domains:
            device = {**device, **{name: self._filled(device[name]) for name in _BY_DOMAIN}}
        found = self._made.evaluate({"device": device})
        if not isinstance(found, bool):
            raise CelError("must evaluate to bool")
        return found

    def _filled(self, by_domain: Mapping[str, Any]) -> dict[str, Any]:
        return {**{name: {} for name in self._domains}, **by_domain}


def loading() -> Iterator[None]:
    """Make ready to compile: that takes a while at the first time, so there is a pause between the steps."""
    load()
    yield
    _environment()
    yield


@lru_cache(maxsize=_KEPT)
def compiled(text: str) -> DeviceExpression:
    """CelError with what is wrong with it as a selector."""
    try:
        made = _environment().compile(text)
    except CelError as fault:
        raise CelError(f"compilation failed: {fault}") from None
    if made.type not in ("bool", "dyn"):
        raise CelError(f"must evaluate to bool or the unknown type, not {made.type}")
    return DeviceExpression(made)


def _domains(tree: Node) -> Iterator[str]:
    """Those that the expression names."""
    for node in tree.walk():
        if node.kind == "call" and node.name in ("_[_]", "_[?_]") and len(node.items) == 2:
            what, which = node.items
            if what.kind == "select" and what.name in _BY_DOMAIN and which.kind == "const" and which.name:
                yield which.name


__all__ = ["DeviceExpression", "compiled", "loading"]
