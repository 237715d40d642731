"""Field selectors: `metadata.name=a,status.phase!=Running`. A backslash escapes comma, equals sign and backslash."""

import re
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from sampan.api.limits import SELECTOR_CHARACTERS, SELECTOR_REQUIREMENTS
from sampan.host.bounded_cache import BoundedCache

_MAX_SHORT_LENGTH = 512
METADATA_FIELDS: Final = ("metadata.name", "metadata.namespace")
"""The fields that every kind supports in selectors."""

_term_text = re.compile(r"((?:[^\\,]|\\.?)*)(,?)", re.DOTALL)
_operator = re.compile(r"!=|==|=")


class FieldSelectorError(ValueError):
    """The selector is malformed or names an unsupported field; the message is that of kube-apiserver."""


class FieldTerm(NamedTuple):
    field: str
    value: str
    is_negated: bool = False

    def __str__(self) -> str:
        return f"{self.field}{'!=' if self.is_negated else '='}{escape(self.value)}"

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether the fields satisfy the term; a missing field counts as empty."""
        return (fields.get(self.field, "") == self.value) is not self.is_negated


class FieldSelector(NamedTuple):
    """Terms that must all match, sorted by their texts."""

    terms: tuple[FieldTerm, ...] = ()

    def __str__(self) -> str:
        return ",".join(map(str, self.terms))

    @property
    def is_everything(self) -> bool:
        return not self.terms

    def matches(self, fields: Mapping[str, str]) -> bool:
        for term in self.terms:  # noqa: SIM110 - quicker than all()
            if not term.matches(fields):
                return False
        return True

    def exact(self) -> list[tuple[str, str]]:
        """Return the fields that must have a certain value; a field may appear twice."""
        return [(term.field, term.value) for term in self.terms if not term.is_negated]

    def check(self, supported: Collection[str] | None) -> None:
        """Raise `FieldSelectorError` for a field that is not in `supported`. None means a kind without field
        declarations, which supports only the metadata fields and has another message."""
        for term in self.terms:
            if supported is None and term.field not in METADATA_FIELDS:
                fields = ", ".join(f'"{field}"' for field in METADATA_FIELDS)
                raise FieldSelectorError(f'"{term.field}" is not a known field selector: only {fields}')
            if supported is not None and term.field not in supported:
                raise FieldSelectorError(f"field label not supported: {term.field}")


def parse(text: str) -> FieldSelector:
    if len(text) > SELECTOR_CHARACTERS:
        raise FieldSelectorError(f"the selector is too long: may not be more than {SELECTOR_CHARACTERS} characters")
    return (_selectors if len(text) <= _MAX_SHORT_LENGTH else _long_selectors)[text]


def _parse(text: str) -> FieldSelector:
    parts = sorted(filter(None, _split(text)), key=lambda part: part.encode("utf-8", "surrogatepass"))
    if len(parts) > SELECTOR_REQUIREMENTS:
        raise FieldSelectorError(f"the selector may not have more than {SELECTOR_REQUIREMENTS} requirements")
    terms = [_term(text, part) for part in parts]
    return FieldSelector(tuple(term for term in terms if term.field or term.value))


_selectors = BoundedCache(_parse, max_entries=2048, max_entry_bytes=8 << 10)
_long_selectors = BoundedCache(_parse, max_entries=16, max_entry_bytes=1 << 20)


def _split(text: str) -> list[str]:
    parts, position = [], 0
    while match := _term_text.match(text, position):
        parts.append(match[1])
        position = match.end()
        if not match[2]:
            break
    return parts


def _term(selector: str, part: str) -> FieldTerm:
    operator = _operator.search(part)
    if operator is None:
        raise FieldSelectorError(f"invalid selector: '{selector}'; can't understand '{part}'")
    return FieldTerm(part[: operator.start()], unescape(part[operator.end() :]), operator[0] == "!=")


def escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


def unescape(text: str) -> str:
    if not any(mark in text for mark in "\\,="):
        return text
    value, position = [], 0
    while position < len(text):
        char = text[position]
        if char == "\\":
            position += 1
            char = _check_escape(text[position : position + 1])
        elif char in ",=":
            raise FieldSelectorError(f"invalid field selector: unescaped character in value: {ord(char)}")
        value.append(char)
        position += 1
    return "".join(value)


def _check_escape(char: str) -> str:
    if not char or char not in "\\,=":
        raise FieldSelectorError(f"invalid field selector: invalid escape sequence: \\{char}")
    return char
