"""Named formats of strings: `format.dns1123Label().validate(name)`."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Final

from sampan.api import names
from sampan.machinery.cel.checker.declarations import Library, Overload, function, method
from sampan.machinery.cel.checker.estimate import (
    REGEX_FACTOR,
    STRING_FACTOR,
    CallEstimate,
    CostEstimator,
    Operand,
)
from sampan.machinery.cel.checker.types import STRING, list_of, opaque, optional_of
from sampan.machinery.cel.library.urls import parse_url
from sampan.machinery.cel.runtime.meter import Frame, charge
from sampan.machinery.cel.runtime.values import NONE, Opaque, OptionalValue, parse_timestamp

FORMAT = opaque("kubernetes.NamedFormat")
_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_ESTIMATED_PATTERN_LENGTH = 128


class FormatValue(Opaque):
    """A format; `check` returns the errors of a text. `pattern_size` is the size of its pattern for the cost."""

    __slots__ = ("check", "name", "pattern_size")
    type_name = "kubernetes.NamedFormat"

    def __init__(self, name: str, check: Callable[[str], Sequence[str]], pattern_size: int) -> None:
        self.name, self.check, self.pattern_size = name, check, pattern_size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FormatValue) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


def _uri(text: str) -> list[str]:
    try:
        parse_url(text)
    except ValueError as error:
        return [str(error)]
    return []


def _uuid(text: str) -> list[str]:
    return [] if _UUID.fullmatch(text) else ["does not match the UUID format"]


def _byte(text: str) -> list[str]:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ["invalid base64"]
    return []


def _date(text: str) -> list[str]:
    try:
        date.fromisoformat(text)
    except ValueError:
        return ["invalid date"]
    return [] if len(text) == 10 else ["invalid date"]


def _datetime(text: str) -> list[str]:
    try:
        parse_timestamp(text)
    except ValueError:
        return ["invalid datetime"]
    return []


_CHECKS: Final[Mapping[str, tuple[Callable[[str], Sequence[str]], int]]] = {
    "dns1123Label": (names.dns1123_label, 30),
    "dns1123Subdomain": (names.dns1123_subdomain, 60),
    "dns1035Label": (names.dns1035_label, 30),
    "qualifiedName": (names.qualified_name, 60),
    "dns1123LabelPrefix": (lambda text: names.dns1123_label(text, prefix=True), 30),
    "dns1123SubdomainPrefix": (lambda text: names.dns1123_subdomain(text, prefix=True), 60),
    "dns1035LabelPrefix": (lambda text: names.dns1035_label(text, prefix=True), 30),
    "labelValue": (names.label_value, 40),
    "uri": (_uri, 1103),
    "uuid": (_uuid, 70),
    "byte": (_byte, 84),
    "date": (_date, 71),
    "datetime": (_datetime, 71),
}
_FORMATS: Final = {name: FormatValue(name, check, size) for name, (check, size) in _CHECKS.items()}


def _validate(frame: Frame, form: FormatValue, text: str) -> OptionalValue:
    charge(frame, ((len(text) + 9) // 10) * ((form.pattern_size + 3) // 4))
    issues = list(form.check(text))
    return OptionalValue(issues) if issues else NONE


def _named(name: str) -> OptionalValue:
    form = _FORMATS.get(name)
    return NONE if form is None else OptionalValue(form)


def _estimate(_: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
    return CallEstimate(operands[1].size.scale(STRING_FACTOR).scale(_ESTIMATED_PATTERN_LENGTH * REGEX_FACTOR))


def _constant(form: FormatValue) -> list[Overload]:
    return [function(result=FORMAT, run=lambda: form)]


LIBRARY = Library(
    {
        "validate": [
            method(
                FORMAT, STRING, result=optional_of(list_of(STRING)), run=_validate, is_metered=True, estimate=_estimate
            )
        ],
        "format.named": [function(STRING, result=optional_of(FORMAT), run=_named)],
        **{f"format.{name}": _constant(form) for name, form in _FORMATS.items()},
    },
    types=(FORMAT,),
)
