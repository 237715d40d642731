"""LabelSelector objects (matchLabels and matchExpressions): their selectors and their validation."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Protocol

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat import gotext
from sampan.api.selectors.label_grammar import SelectorError
from sampan.api.selectors.labels import EVERYTHING, NOTHING, Operator, Requirement, Selector
from sampan.host.bounded_cache import BoundedCache

OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}

_MAX_CACHED_PARTS = 50
"""Selectors with more parts are cached apart from the others, or they could fill the memory."""
_MAX_LARGE_PARTS = 50_000
"""How many parts the cached large selectors have together. A part takes about 300 bytes."""


class SelectorExpression(Protocol):
    """The fields of a LabelSelectorRequirement."""

    @property
    def key(self) -> str: ...
    @property
    def operator(self) -> str: ...
    @property
    def values(self) -> Sequence[str]: ...


class LabelSelector(Protocol):
    @property
    def matchLabels(self) -> Mapping[str, str]: ...
    @property
    def matchExpressions(self) -> Sequence[SelectorExpression]: ...


def selector_of(source: LabelSelector | None) -> Selector:
    """Return the selector of the object: nothing for None, everything for an empty object. Raise `SelectorError` if it
    is invalid."""
    if source is None:
        return NOTHING
    labels, expressions = source.matchLabels, source.matchExpressions
    if not labels and not expressions:
        return EVERYTHING
    terms = tuple((e.key, e.operator, tuple(e.values)) for e in expressions)
    parts = len(labels) + sum(1 + len(values) for _, _, values in terms)
    if parts <= _MAX_CACHED_PARTS:
        return _selectors[tuple(labels.items()), terms]
    return _large.get(source, parts) or _large.put(source, _make_selector((tuple(labels.items()), terms)), parts)


_Terms = tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str, tuple[str, ...]], ...]]
"""Labels, and expressions as key, operator and values."""


def _make_selector(terms: _Terms) -> Selector:
    labels, expressions = terms
    requirements = [Requirement(key, Operator.EQUALS, (value,)) for key, value in labels]
    for requirement in requirements:
        requirement.check()
    for key, operator, values in expressions:
        if operator not in OPERATORS:
            raise SelectorError(f"{gotext.quote(operator)} is not a valid label selector operator")
        requirements.append(Requirement(key, OPERATORS[operator], values))
        requirements[-1].check()
    return Selector(requirements)


_selectors = BoundedCache(_make_selector, max_entries=4096, max_entry_bytes=8 << 10, max_bytes=8 << 20)


class _LargeSelectors:
    """The selectors of the objects with many parts that were used last. They are found by the identity of the object,
    since hashing its parts would cost as much as most uses of the selector."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, tuple[LabelSelector, Selector, int]] = OrderedDict()
        self._parts = 0
        self._lock = Lock()

    def get(self, source: LabelSelector, parts: int) -> Selector | None:
        cached = self._kept.get(id(source))
        return cached[1] if cached is not None and cached[0] is source and cached[2] == parts else None

    def put(self, source: LabelSelector, selector: Selector, parts: int) -> Selector:
        with self._lock:
            replaced = self._kept.pop(id(source), None)
            self._kept[id(source)] = source, selector, parts
            self._parts += parts - (replaced[2] if replaced is not None else 0)
            while self._parts > _MAX_LARGE_PARTS:
                self._parts -= self._kept.popitem(last=False)[1][2]
        return selector


_large = _LargeSelectors()


def is_selected(labels: Mapping[str, str], source: LabelSelector | None) -> bool:
    """Whether the selector matches the labels; an invalid selector matches nothing."""
    try:
        return selector_of(source).matches(labels)
    except SelectorError:
        return False


def selector_errors(source: LabelSelector | None, field: str, *, allow_bad_values: bool = False) -> list[FieldError]:
    """Return the errors of the object at `field`. `allow_bad_values` accepts invalid label values in objects that
    already have them."""
    if source is None:
        return []
    errors = label_errors(source.matchLabels, f"{field}.matchLabels")
    for index, expression in enumerate(source.matchExpressions):
        errors += _expression_errors(expression, f"{field}.matchExpressions[{index}]", allow_bad_values)
    return errors


def label_errors(labels: Mapping[str, str], field: str) -> list[FieldError]:
    errors = []
    for key, value in labels.items():
        errors += [FieldError.invalid(field, key, message) for message in names.label_key(key)]
        errors += [FieldError.invalid(field, value, message) for message in names.label_value(value)]
    return errors


def _expression_errors(expression: SelectorExpression, field: str, allow_bad_values: bool) -> list[FieldError]:
    errors = _operator_errors(expression, field)
    errors += [
        FieldError.invalid(f"{field}.key", expression.key, message) for message in names.label_key(expression.key)
    ]
    if not allow_bad_values:
        for index, value in enumerate(expression.values):
            errors += [
                FieldError.invalid(f"{field}.values[{index}]", value, message) for message in names.label_value(value)
            ]
    return errors


def _operator_errors(expression: SelectorExpression, field: str) -> list[FieldError]:
    if expression.operator not in OPERATORS:
        return [FieldError.invalid(f"{field}.operator", expression.operator, "not a valid selector operator")]
    if expression.operator in ("In", "NotIn"):
        detail = "must be specified when `operator` is 'In' or 'NotIn'"
        return [] if expression.values else [FieldError.required(f"{field}.values", detail)]
    detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
    return [FieldError.forbidden(f"{field}.values", detail)] if expression.values else []
