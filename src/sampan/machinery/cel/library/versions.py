"""Semantic versions: `semver("1.2.3").isLessThan(semver("1.10.0"))`."""

from __future__ import annotations

import re
from functools import total_ordering
from typing import Any

from sampan.api.go_compat import gotext
from sampan.machinery.cel.checker.declarations import Library, function, method
from sampan.machinery.cel.checker.estimate import traverse
from sampan.machinery.cel.checker.types import BOOL, INT, STRING, opaque
from sampan.machinery.cel.errors import EvaluationError
from sampan.machinery.cel.runtime.values import Opaque

SEMVER = opaque("kubernetes.Semver")
_NUMBER = r"(0|[1-9]\d{0,19})"
_SEMVER = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-([0-9A-Za-z-]++(?:\.[0-9A-Za-z-]++)*+))?(?:\+([0-9A-Za-z-]++(?:\.[0-9A-Za-z-]++)*+))?",
    re.ASCII,
)
_IDENTIFIER = re.compile(r"[0-9A-Za-z-]+")
_MAX_VERSION_LENGTH = 256


@total_ordering
class SemverValue(Opaque):
    """A version. Build metadata is ignored in comparisons."""

    __slots__ = ("_key", "core", "text")
    type_name = "kubernetes.Semver"

    def __init__(self, text: str, core: tuple[int, int, int], prerelease: str) -> None:
        self.text, self.core = text, core
        parts = tuple(_part(part) for part in prerelease.split(".")) if prerelease else ()
        self._key = (core, not parts, parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SemverValue) and self._key == other._key

    def __lt__(self, other: SemverValue) -> bool:
        return self._key < other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __str__(self) -> str:
        return self.text


def _part(text: str) -> tuple[bool, int, str]:
    """Return a sort key that orders numbers before words."""
    return (False, int(text), "") if text.isdigit() else (True, 0, text)


def version_value(text: str) -> SemverValue:
    """Return the value for a variable. Raise ValueError."""
    match = _SEMVER.fullmatch(text) if len(text) <= _MAX_VERSION_LENGTH else None
    if match is None:
        raise ValueError(_find_version_error(text[:_MAX_VERSION_LENGTH]))
    return SemverValue(text, (int(match[1]), int(match[2]), int(match[3])), match[4] or "")


def _find_version_error(text: str) -> str:
    """Return why a text is no semantic version."""
    if not text:
        return "Version string empty"
    parts = text.split(".", 2)
    if len(parts) < 3:
        return "No Major.Minor.Patch elements found"
    patch, _, build = parts[2].partition("+")
    patch, dash, prerelease = patch.partition("-")
    for name, number in (("major", parts[0]), ("minor", parts[1]), ("patch", patch)):
        shown = gotext.quote(number)
        if not number.isascii() or not (number or "0").isdigit():
            return f"Invalid character(s) found in {name} number {shown}"
        if len(number) > 1 and number[0] == "0":
            return f"{name.capitalize()} number must not contain leading zeroes {shown}"
        if not number:
            return f"strconv.ParseUint: parsing {shown}: invalid syntax"
        if int(number) >= 2**64:
            return f"strconv.ParseUint: parsing {shown}: value out of range"
    for part in prerelease.split(".") if dash else ():
        if not part:
            return "Prerelease is empty"
        if part.isdigit() and part.isascii() and len(part) > 1 and part[0] == "0":
            return f"Numeric PreRelease version must not contain leading zeroes {gotext.quote(part)}"
        if not _IDENTIFIER.fullmatch(part):
            return f"Invalid character(s) found in prerelease {gotext.quote(part)}"
    for part in build.split("."):
        if not part:
            return "Build meta data is empty"
        if not _IDENTIFIER.fullmatch(part):
            return f"Invalid character(s) found in build meta data {gotext.quote(part)}"
    return f"invalid semantic version {gotext.quote(text)}"


def _normalize(text: str) -> str:
    """Return the text without a leading `v` and leading zeros, and with missing parts added."""
    text = text.removeprefix("v")
    end = next((index for index, char in enumerate(text) if char in "-+"), len(text))
    parts = [part.lstrip("0") or "0" if part else part for part in text[:end].split(".")[:4]]
    parts += ["0"] * (3 - len(parts))
    return ".".join(parts) + text[end:]


def _semver(text: str, is_normalized: bool = False) -> SemverValue:
    try:
        return version_value(_normalize(text) if is_normalized else text)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def _is_semver(text: str, is_normalized: bool = False) -> bool:
    try:
        version_value(_normalize(text) if is_normalized else text)
    except ValueError:
        return False
    return True


def _compare(left: SemverValue, right: SemverValue) -> int:
    return (left > right) - (left < right)


def _traversal(text: str, *_: Any) -> int:
    return (len(text) + 9) // 10


LIBRARY = Library(
    {
        "semver": [
            function(STRING, result=SEMVER, run=_semver, cost=_traversal, estimate=traverse()),
            function(STRING, BOOL, result=SEMVER, run=_semver, cost=_traversal, estimate=traverse()),
        ],
        "isSemver": [
            function(STRING, result=BOOL, run=_is_semver, cost=_traversal, estimate=traverse()),
            function(STRING, BOOL, result=BOOL, run=_is_semver, cost=_traversal, estimate=traverse()),
        ],
        "isGreaterThan": [method(SEMVER, SEMVER, result=BOOL, run=lambda left, right: left > right)],
        "isLessThan": [method(SEMVER, SEMVER, result=BOOL, run=lambda left, right: left < right)],
        "compareTo": [method(SEMVER, SEMVER, result=INT, run=_compare)],
        "major": [method(SEMVER, result=INT, run=lambda version: version.core[0])],
        "minor": [method(SEMVER, result=INT, run=lambda version: version.core[1])],
        "patch": [method(SEMVER, result=INT, run=lambda version: version.core[2])],
    },
    types=(SEMVER,),
)
