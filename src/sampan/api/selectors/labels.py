"""Label selectors: their requirements, matching and text form.

The grammar of the text is in `label_grammar`; LabelSelector objects are in `label_selector`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from sampan.api import names
from sampan.api.field_errors import FieldError, join_messages
from sampan.api.limits import SELECTOR_CHARACTERS, SELECTOR_REQUIREMENTS
from sampan.api.selectors.label_grammar import LabelSelectorParser, SelectorError
from sampan.host.bounded_cache import BoundedCache

_MIN, _MAX = -(2**63), 2**63 - 1
_is_integer = re.compile(r"[+-]?[0-9]{1,4000}").fullmatch

_MAX_SHORT_LENGTH = 512
"""Of longer texts only the last few are cached, so that watches with equal selectors share them."""

__all__ = ["EVERYTHING", "NOTHING", "Operator", "Requirement", "Selector", "SelectorError", "from_labels", "parse"]


class LabelPredicate(Protocol):
    """Returns whether a label set satisfies a condition."""

    def __call__(self, labels: Mapping[str, str]) -> bool: ...


class Operator(StrEnum):
    IN = "in"
    NOT_IN = "notin"
    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    GREATER_THAN = "gt"
    LESS_THAN = "lt"


_SETS = (Operator.IN, Operator.NOT_IN)
_SINGLE = (Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.NOT_EQUALS)
_ORDER = (Operator.GREATER_THAN, Operator.LESS_THAN)
_BARE = (Operator.EXISTS, Operator.DOES_NOT_EXIST)
_NEGATIVE = (Operator.NOT_IN, Operator.NOT_EQUALS, Operator.DOES_NOT_EXIST)
"""The operators that are satisfied by label sets without the key."""
_EXACT = (Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.IN)


class Requirement(NamedTuple):
    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        values = ",".join(sorted(self.values))
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.IN | Operator.NOT_IN:
                return f"{self.key} {self.operator} ({values})"
            case Operator.GREATER_THAN:
                return f"{self.key}>{values}"
            case Operator.LESS_THAN:
                return f"{self.key}<{values}"
        return f"{self.key}{self.operator}{values}"

    @property
    def is_exact(self) -> bool:
        """Whether the requirement is for one label with one value."""
        return self.operator in _EXACT and len(self.values) == 1

    def check(self) -> None:
        """Raise `SelectorError` unless key, operator and values are consistent."""
        errors = [*self._key_errors(), *self._count_errors()]
        for index, value in enumerate(self.values):
            if messages := names.label_value(value):
                errors.append(FieldError.invalid(f"values[{index}][{self.key}]", value, "; ".join(messages)))
        if errors:
            raise SelectorError(join_messages([str(error) for error in errors]))

    def _key_errors(self) -> list[FieldError]:
        messages = names.label_key(self.key)
        return [FieldError.invalid("key", self.key, "; ".join(messages))] if messages else []

    def _count_errors(self) -> list[FieldError]:
        shown = list(self.values) if self.values else None
        count = len(self.values)
        if self.operator in _SETS and count == 0:
            return [FieldError.invalid("values", shown, "for 'in', 'notin' operators, values set can't be empty")]
        if self.operator in _SINGLE and count != 1:
            return [FieldError.invalid("values", shown, "exact-match compatibility requires one single value")]
        if self.operator in _BARE and count != 0:
            return [FieldError.invalid("values", shown, "values set must be empty for exists and does not exist")]
        if self.operator not in _ORDER:
            return []
        detail = "for 'Gt', 'Lt' operators, exactly one value is required"
        errors = [FieldError.invalid("values", shown, detail)] if count != 1 else []
        detail = "for 'Gt', 'Lt' operators, the value must be an integer"
        wrong = ((index, value) for index, value in enumerate(self.values) if _int64(value) is None)
        return errors + [FieldError.invalid(f"values[{index}]", value, detail) for index, value in wrong]


def predicate_of(requirement: Requirement) -> LabelPredicate:
    """Return a function that evaluates the requirement on a label set."""
    key, operator, values = requirement
    match operator:
        case Operator.IN | Operator.EQUALS | Operator.DOUBLE_EQUALS:
            return _membership(key, values)
        case Operator.NOT_IN | Operator.NOT_EQUALS:
            is_in = _membership(key, values)
            return lambda labels: not is_in(labels)
        case Operator.EXISTS:
            return lambda labels: key in labels
        case Operator.DOES_NOT_EXIST:
            return lambda labels: key not in labels
    return _order(key, operator, values)


def _membership(key: str, values: tuple[str, ...]) -> LabelPredicate:
    if len(values) == 1:
        (only,) = values
        return lambda labels: labels.get(key) == only
    members = frozenset(values)
    return lambda labels: labels.get(key) in members


def _order(key: str, operator: Operator, values: tuple[str, ...]) -> LabelPredicate:
    limit = _int64(values[0]) if len(values) == 1 else None
    if limit is None:
        return never
    low, high = _order_bounds(operator, limit)

    def test(labels: Mapping[str, str]) -> bool:
        number = _int64(labels.get(key, ""))
        return number is not None and low <= number <= high

    return test


def _order_bounds(operator: Operator, limit: int) -> tuple[int, int]:
    return (limit + 1, _MAX) if operator is Operator.GREATER_THAN else (_MIN, limit - 1)


def _int64(text: str) -> int | None:
    if not _is_integer(text):
        return None
    number = int(text)
    return number if _MIN <= number <= _MAX else None


def never(labels: Mapping[str, str]) -> bool:
    return False


_WRITTEN = {">": Operator.GREATER_THAN, "<": Operator.LESS_THAN}


def _always(labels: Mapping[str, str]) -> bool:
    return True


def _combine_tests(tests: list[LabelPredicate]) -> LabelPredicate:
    if not tests:
        return _always
    if len(tests) == 1:
        return tests[0]
    if len(tests) == 2:
        first, second = tests
        return lambda labels: first(labels) and second(labels)

    def test(labels: Mapping[str, str]) -> bool:
        for predicate in tests:  # noqa: SIM110 - a generator for all() would cost as much as the tests
            if not predicate(labels):
                return False
        return True

    return test


_FEW_REQUIREMENTS = 8


def _compile(requirements: tuple[Requirement, ...]) -> LabelPredicate:
    if len(requirements) <= _FEW_REQUIREMENTS:
        return _combine_tests([predicate_of(requirement) for requirement in requirements])
    return _combine_many(requirements)


def _combine_many(requirements: tuple[Requirement, ...]) -> LabelPredicate:
    """Return a function that costs as much as the label set is large, however many requirements there are. Two or more
    requirements of one key are evaluated as one, and only for a label set that has the key."""
    of_keys: dict[str, list[Requirement]] = {}
    for requirement in requirements:
        of_keys.setdefault(requirement.key, []).append(requirement)
    required = {key for key, terms in of_keys.items() if any(term.operator not in _NEGATIVE for term in terms)}
    tests = {key: _test_of_value(terms) for key, terms in of_keys.items()}

    def test(labels: Mapping[str, str]) -> bool:
        if len(required) > len(labels) or not all(key in labels for key in required):
            return False
        return all(key not in tests or tests[key](value) for key, value in labels.items())

    return test


def _test_of_value(requirements: list[Requirement]) -> Callable[[str], bool]:
    """Return a function that evaluates requirements with the same key on the value of that key."""
    allowed: frozenset[str] | None = None
    refused: set[str] = set()
    low, high = _MIN, _MAX
    for _, operator, values in requirements:
        if operator is Operator.DOES_NOT_EXIST:
            allowed = frozenset()
        elif operator in (Operator.NOT_IN, Operator.NOT_EQUALS):
            refused.update(values)
        elif operator in _ORDER:
            limit = _int64(values[0]) if len(values) == 1 else None
            bounds = _order_bounds(operator, limit) if limit is not None else (_MAX, _MIN)
            low, high = max(low, bounds[0]), min(high, bounds[1])
        elif operator is not Operator.EXISTS:
            allowed = frozenset(values) if allowed is None else allowed & frozenset(values)
    is_ordered = any(requirement.operator in _ORDER for requirement in requirements)

    def test(value: str) -> bool:
        if (allowed is not None and value not in allowed) or value in refused:
            return False
        return not is_ordered or ((number := _int64(value)) is not None and low <= number <= high)

    return test


class Selector:
    """Requirements that must all hold for a label set to match. Immutable; compares by its requirements.

    `matches(labels)` is compiled when the selector is created: a plain function, as fast as the requirements allow.
    """

    __slots__ = ("is_nothing", "matches", "requirements")

    is_nothing: Final[bool]
    """Whether the selector matches no label set at all."""
    matches: Final[LabelPredicate]
    requirements: Final[tuple[Requirement, ...]]
    """The requirements, sorted by key."""

    def __init__(self, requirements: Iterable[Requirement] = (), *, is_nothing: bool = False) -> None:
        self.requirements = tuple(sorted(requirements, key=lambda requirement: requirement.key))
        self.is_nothing = is_nothing
        self.matches = never if is_nothing else _compile(self.requirements)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __repr__(self) -> str:
        return "Selector(is_nothing=True)" if self.is_nothing else f"Selector({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Selector):
            return NotImplemented
        return self.requirements == other.requirements and self.is_nothing == other.is_nothing

    def __hash__(self) -> int:
        return hash((self.requirements, self.is_nothing))

    @property
    def is_everything(self) -> bool:
        return not self.requirements and not self.is_nothing

    def exact(self) -> list[tuple[str, str]]:
        """Return the labels that must have a certain value; a key may appear twice."""
        return [(requirement.key, requirement.values[0]) for requirement in self.requirements if requirement.is_exact]

    def required_labels(self) -> Mapping[str, str]:
        """Return the labels that must have a certain value as a mapping; for a key with two values, the last value
        counts."""
        return dict(self.exact())

    def with_requirements(self, *requirements: Requirement) -> "Selector":
        return Selector((*self.requirements, *requirements), is_nothing=self.is_nothing)


EVERYTHING: Final = Selector()
NOTHING: Final = Selector(is_nothing=True)


def parse(text: str) -> Selector:
    """Parse the text form. Raise `SelectorError`."""
    if len(text) > SELECTOR_CHARACTERS:
        raise SelectorError(f"the selector is too long: may not be more than {SELECTOR_CHARACTERS} characters")
    return (_selectors if len(text) <= _MAX_SHORT_LENGTH else _long_selectors)[text]


def _parse(text: str) -> Selector:
    grammar, requirements = LabelSelectorParser(text), []
    while not grammar.is_at_end():
        try:
            requirements.append(_requirement(grammar))
        except SelectorError as error:
            raise SelectorError(f"unable to parse requirement: {error}") from None
        if len(requirements) > SELECTOR_REQUIREMENTS:
            raise SelectorError(f"the selector may not have more than {SELECTOR_REQUIREMENTS} requirements")
        grammar.separator()
    return Selector(requirements)


_selectors = BoundedCache(_parse, max_entries=2048, max_entry_bytes=8 << 10)
_long_selectors = BoundedCache(_parse, max_entries=16, max_entry_bytes=1 << 20)


def _requirement(grammar: LabelSelectorParser) -> Requirement:
    key, is_absent = grammar.key()
    if messages := names.label_key(key):
        raise SelectorError(str(FieldError.invalid("<nil>", key, "; ".join(messages))))
    term = grammar.rest(key, is_absent)
    requirement = Requirement(key, _WRITTEN.get(term.operator) or Operator(term.operator), term.values)
    requirement.check()
    return requirement


def from_labels(labels: Mapping[str, str]) -> Selector:
    """Return a selector of all these labels, without validation: that of a Service or ReplicationController."""
    return Selector(Requirement(key, Operator.EQUALS, (value,)) for key, value in labels.items())
