"""Label selectors: their requirements, matching and text form.

The grammar of the text is in `label_grammar`; LabelSelector objects are in `label_selector`.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.label_grammar import Grammar, SelectorError
from sampan.api.label_requirement import Operator, Predicate, Requirement, never, predicate_of

_LONGEST_KEPT = 512
"""Longer texts are not cached, or a client could fill the memory with them."""

_WRITTEN = {">": Operator.GREATER_THAN, "<": Operator.LESS_THAN}


def _always(labels: Mapping[str, str]) -> bool:
    return True


def _all(tests: list[Predicate]) -> Predicate:
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


class Selector:
    """Requirements that must all hold for a label set to match. Immutable; compares by its requirements.

    `matches(labels)` is compiled when the selector is created: a plain function, as fast as the requirements allow.
    """

    __slots__ = ("is_nothing", "matches", "requirements")

    is_nothing: Final[bool]
    """Whether the selector matches no label set at all."""
    matches: Final[Predicate]
    requirements: Final[tuple[Requirement, ...]]
    """The requirements, sorted by key."""

    def __init__(self, requirements: Iterable[Requirement] = (), *, is_nothing: bool = False) -> None:
        self.requirements = tuple(sorted(requirements, key=lambda requirement: requirement.key))
        self.is_nothing = is_nothing
        self.matches = never if is_nothing else _all([predicate_of(requirement) for requirement in self.requirements])

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

    def required(self) -> Mapping[str, str]:
        """Return `exact` as a mapping; for a key with two values, the last."""
        return dict(self.exact())

    def narrowed(self, *requirements: Requirement) -> "Selector":
        return Selector((*self.requirements, *requirements), is_nothing=self.is_nothing)


EVERYTHING: Final = Selector()
NOTHING: Final = Selector(is_nothing=True)


def parse(text: str) -> Selector:
    """Parse the text form. Raise `SelectorError`."""
    return _parse_kept(text) if len(text) <= _LONGEST_KEPT else _parse(text)


def _parse(text: str) -> Selector:
    grammar, requirements = Grammar(text), []
    while not grammar.is_at_end():
        try:
            requirements.append(_requirement(grammar))
        except SelectorError as error:
            raise SelectorError(f"unable to parse requirement: {error}") from None
        grammar.separator()
    return Selector(requirements)


_parse_kept = lru_cache(maxsize=2048)(_parse)


def _requirement(grammar: Grammar) -> Requirement:
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


__all__ = ["EVERYTHING", "NOTHING", "Operator", "Requirement", "Selector", "SelectorError", "from_labels", "parse"]
