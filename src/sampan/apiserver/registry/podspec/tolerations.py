"""Validation of tolerations."""

from collections.abc import Sequence

from sampan.api import names
from sampan.api.faults import FieldError
from sampan.api.types.core_v1 import Toleration
from sampan.apiserver.registry.podspec.formats import FieldErrors, validate_qualified_name

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_KEYLESS = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'


def validate_tolerations(tolerations: Sequence[Toleration], at: str) -> FieldErrors:
    for index, toleration in enumerate(tolerations):
        yield from _validate_toleration(toleration, f"{at}[{index}]")


def _validate_toleration(toleration: Toleration, at: str) -> FieldErrors:
    key, effect = toleration.key, toleration.effect
    if key:
        yield from validate_qualified_name(key, f"{at}.key")
    elif toleration.operator != "Exists":
        yield FieldError.invalid(f"{at}.operator", toleration.operator, _KEYLESS)
    if toleration.tolerationSeconds is not None and effect != "NoExecute":
        text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield FieldError.invalid(f"{at}.effect", effect, text)
    yield from _validate_operator(toleration, at)
    if effect and effect not in EFFECTS:
        yield FieldError.not_supported(f"{at}.effect", effect, EFFECTS)


def _validate_operator(toleration: Toleration, at: str) -> FieldErrors:
    operator, value = toleration.operator, toleration.value
    if operator in ("Equal", ""):
        if messages := names.label_value(value):
            yield FieldError.invalid(f"{at}.operator", value, ";".join(messages))
    elif operator == "Exists":
        if value:
            yield FieldError.invalid(f"{at}.operator", value, "value must be empty when `operator` is 'Exists'")
    elif operator not in ("Lt", "Gt"):
        yield FieldError.not_supported(f"{at}.operator", operator, ("Equal", "Exists"))
    else:
        yield FieldError.not_supported(f"{at}.operator", operator, ("Equal", "Exists", "Lt", "Gt"))
