"""Which questions a webhook is asked: conditions in CEL over the question itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sampan.machinery.cel import CelError, Environment, Expression
from sampan.machinery.cel.escapes import reachable
from sampan.machinery.cel.library import FUNCTIONS
from sampan.machinery.cel.shapes import ListOf, MapOf, ObjectOf, Shape

_TEXTS = ("namespace", "verb", "group", "version", "resource", "subresource", "name")
_REQUIREMENT = ObjectOf(
    "kubernetes.SelectorRequirement", {"key": "string", "operator": "string", "values": ListOf("string")}
)
_SELECTOR: Mapping[str, Shape] = {"rawSelector": "string", "requirements": ListOf(_REQUIREMENT)}
_RESOURCE: Mapping[str, Shape] = {
    **dict.fromkeys(_TEXTS, "string"),
    "fieldSelector": ObjectOf("kubernetes.FieldSelectorAttributes", _SELECTOR),
    "labelSelector": ObjectOf("kubernetes.LabelSelectorAttributes", _SELECTOR),
}
_REQUEST = ObjectOf(
    "kubernetes.SubjectAccessReviewSpec",
    {
        "resourceAttributes": ObjectOf("kubernetes.ResourceAttributes", _RESOURCE),
        "nonResourceAttributes": ObjectOf("kubernetes.NonResourceAttributes", {"path": "string", "verb": "string"}),
        "user": "string",
        "groups": ListOf("string"),
        "extra": MapOf(ListOf("string")),
        "uid": "string",
    },
)


class ConditionsFailed(ValueError):
    """Conditions of which none is false and some cannot be evaluated."""


@cache
def environment() -> Environment:
    return Environment(variables={"request": _REQUEST}, functions=FUNCTIONS)


def compiled(text: str) -> Expression:
    """`CelError` with what is wrong with it as a condition."""
    try:
        made = environment().compile(text)
    except CelError as fault:
        raise CelError(f"compilation failed: {fault}") from None
    if made.type != "bool":
        raise CelError(f"must evaluate to bool but got {made.type}")
    return made


def all_match(conditions: Sequence[Expression], spec: Mapping[str, Any]) -> bool:
    """Whether all hold for the question; one that is false counts more than one that fails."""
    values, faults = {"request": _value(spec)}, []
    for condition in conditions:
        try:
            if not condition.evaluate(values):
                return False
        except CelError as fault:
            faults.append(f"cel evaluation error: expression '{condition.text}' resulted in error: {fault}")
    if faults:
        raise ConditionsFailed(faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]")
    return True


def _value(spec: Mapping[str, Any]) -> Any:
    """The question with all its texts, empty ones too."""
    found = {"user": "", "groups": [], "uid": "", "extra": {}, **spec}
    if "resourceAttributes" in spec:
        found["resourceAttributes"] = {**dict.fromkeys(_TEXTS, ""), **spec["resourceAttributes"]}
    return reachable(found)


__all__ = ["ConditionsFailed", "all_match", "compiled"]
