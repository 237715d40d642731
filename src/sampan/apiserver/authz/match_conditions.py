"""Match conditions of webhooks: CEL expressions over the access review."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from sampan.machinery.cel.errors import CelError
from sampan.machinery.cel.escapes import reachable

if TYPE_CHECKING:
    from sampan.machinery.cel import Environment, Program

_TEXTS = ("namespace", "verb", "group", "version", "resource", "subresource", "name")


class ConditionsFailed(ValueError):
    """No condition is false, but some could not be evaluated."""


@cache
def environment() -> Environment:
    """Return the environment with `request`, the spec of a SubjectAccessReview. The CEL engine is imported with the
    first condition."""
    from sampan.machinery.cel import Environment
    from sampan.machinery.cel.checker.types import STRING, ObjectType, list_of, map_of

    requirement = {"key": STRING, "operator": STRING, "values": list_of(STRING)}
    selector = {
        "rawSelector": STRING,
        "requirements": list_of(ObjectType("kubernetes.SelectorRequirement", requirement)),
    }
    resource = {
        **dict.fromkeys(_TEXTS, STRING),
        "fieldSelector": ObjectType("kubernetes.FieldSelectorAttributes", selector),
        "labelSelector": ObjectType("kubernetes.LabelSelectorAttributes", selector),
    }
    spec = {
        "resourceAttributes": ObjectType("kubernetes.ResourceAttributes", resource),
        "nonResourceAttributes": ObjectType("kubernetes.NonResourceAttributes", {"path": STRING, "verb": STRING}),
        "user": STRING,
        "groups": list_of(STRING),
        "extra": map_of(STRING, list_of(STRING)),
        "uid": STRING,
    }
    return Environment({"request": ObjectType("kubernetes.SubjectAccessReviewSpec", spec)})


def compiled(text: str) -> Program:
    """Return the compiled condition. Raise `CelError` if it is invalid or not boolean."""
    try:
        program = environment().compile(text)
    except CelError as error:
        raise CelError(f"compilation failed: {error}") from None
    if program.result_type.kind != "bool":
        raise CelError(f"must evaluate to bool but got {program.result_type}")
    return program


def all_match(conditions: Sequence[Program], spec: Mapping[str, Any]) -> bool:
    """Whether all conditions match. A false condition takes precedence over one that fails, which raises
    `ConditionsFailed`."""
    values, faults = {"request": _value(spec)}, []
    for condition in conditions:
        try:
            if not condition.evaluate(values):
                return False
        except CelError as error:
            faults.append(f"cel evaluation error: expression '{condition.text}' resulted in error: {error}")
    if faults:
        raise ConditionsFailed(faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]")
    return True


def _value(spec: Mapping[str, Any]) -> Any:
    """Return the review as a CEL value, with empty strings for missing fields."""
    value = {"user": "", "groups": [], "uid": "", "extra": {}, **spec}
    if "resourceAttributes" in spec:
        value["resourceAttributes"] = {**dict.fromkeys(_TEXTS, ""), **spec["resourceAttributes"]}
    return reachable(value)
