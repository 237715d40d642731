"""The loops of the macros, one function for each. The costs are those of the folds that cel-go expands the macros
into."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from sampan.machinery.cel.errors import CostLimitExceeded, EvaluationError
from sampan.machinery.cel.runtime.meter import Frame, charge_work
from sampan.machinery.cel.runtime.operators import key_value, map_key, overload_error
from sampan.machinery.cel.runtime.values import is_list, is_map

Run = Callable[[Frame], Any]
Steps = Callable[[Frame], Iterator[Any]]
"""Iterates over the range with the variables set in the frame, and yields the value of the first variable."""


def compile_loop(
    form: str, range_: Run, slot: int, slot2: int | None, predicate: Run | None, transform: Run | None
) -> Run:
    steps = _iterate_elements(range_, slot) if slot2 is None else _iterate_pairs(range_, slot, slot2)
    return _FORMS[form](steps, predicate, transform)


def _iterate_elements(range_: Run, slot: int) -> Steps:
    """Iterate over the elements of a list or the keys of a map."""

    def steps(frame: Frame) -> Iterator[Any]:
        values = range_(frame)
        if is_map(values):
            elements: Iterable[Any] = map(key_value, list(values))
        elif is_list(values):
            elements = values
        else:
            raise overload_error()
        for element in elements:
            if frame[0] > frame[1]:
                raise CostLimitExceeded
            frame[slot] = element
            yield element

    return steps


def _iterate_pairs(range_: Run, slot: int, slot2: int) -> Steps:
    """Iterate over the indices and elements of a list, or the keys and values of a map."""

    def steps(frame: Frame) -> Iterator[Any]:
        values = range_(frame)
        if is_map(values):
            entries: Iterable[tuple[Any, Any]] = list(values.items())
        elif is_list(values):
            entries = enumerate(values)
        else:
            raise overload_error()
        for key, value in entries:
            if frame[0] > frame[1]:
                raise CostLimitExceeded
            frame[slot], frame[slot2] = key_value(key), value
            yield frame[slot]

    return steps


def _quantifier(*, decisive: bool, step_cost: int) -> Callable[[Steps, Run | None, Run | None], Run]:
    """Return `all`, which stops at the first false element, or `exists`, which stops at the first true one; either
    takes precedence over errors."""

    def compile_form(steps: Steps, predicate: Run | None, _: Run | None) -> Run:
        assert predicate is not None
        condition = predicate

        def run(frame: Frame) -> Any:
            failure: EvaluationError | None = None
            frame[0] += 1
            for _ in steps(frame):
                frame[0] += step_cost
                try:
                    value = condition(frame)
                except EvaluationError as error:
                    failure = error
                    continue
                if value is decisive:
                    frame[0] += step_cost - 1
                    return decisive
                if type(value) is not bool:
                    failure = overload_error()
            if failure is not None:
                raise failure
            return not decisive

        return run

    return compile_form


def _exists_one(steps: Steps, predicate: Run | None, _: Run | None) -> Run:
    assert predicate is not None
    condition = predicate

    def run(frame: Frame) -> bool:
        count = 0
        frame[0] += 2
        for _ in steps(frame):
            if _is_true(condition(frame)):
                frame[0] += 2
                count += 1
        return count == 1

    return run


def _filter(steps: Steps, predicate: Run | None, _: Run | None) -> Run:
    assert predicate is not None
    condition = predicate

    def run(frame: Frame) -> list[Any]:
        elements: list[Any] = []
        frame[0] += 1
        for element in steps(frame):
            if _is_true(condition(frame)):
                frame[0] += 13
                elements.append(element)
        return elements

    return run


def _map(steps: Steps, predicate: Run | None, transform: Run | None) -> Run:
    assert transform is not None
    make, condition = transform, predicate

    def run(frame: Frame) -> list[Any]:
        elements: list[Any] = []
        frame[0] += 1
        for _ in steps(frame):
            if condition is None or _is_true(condition(frame)):
                frame[0] += 12
                elements.append(make(frame))
        return elements

    return run


def _transform_map(steps: Steps, predicate: Run | None, transform: Run | None) -> Run:
    assert transform is not None
    make, condition = transform, predicate

    def run(frame: Frame) -> dict[Any, Any]:
        entries: dict[Any, Any] = {}
        frame[0] += 1
        for key in steps(frame):
            if condition is None or _is_true(condition(frame)):
                frame[0] += 3
                entries[map_key(key)] = make(frame)
        return entries

    return run


def _transform_entry(steps: Steps, predicate: Run | None, transform: Run | None) -> Run:
    assert transform is not None
    make, condition = transform, predicate

    def run(frame: Frame) -> dict[Any, Any]:
        entries: dict[Any, Any] = {}
        frame[0] += 1
        for _ in steps(frame):
            if condition is None or _is_true(condition(frame)):
                frame[0] += 2
                entry = make(frame)
                if not is_map(entry):
                    raise overload_error()
                for key, value in entry.items():
                    if key in entries:
                        raise EvaluationError(f"insert failed: key {key_value(key)} already exists")
                    charge_work(frame, 1)
                    entries[key] = value
        return entries

    return run


def _sort_by(steps: Steps, _: Run | None, transform: Run | None) -> Run:
    assert transform is not None
    make = transform

    def run(frame: Frame) -> list[Any]:
        from sampan.machinery.cel.library.lists import sort_by_keys

        keyed = []
        frame[0] += 3
        for element in steps(frame):
            frame[0] += 12
            keyed.append((make(frame), element))
        return sort_by_keys(frame, [key for key, _ in keyed], [element for _, element in keyed])

    return run


def _is_true(value: Any) -> bool:
    if value is True:
        return True
    if value is False:
        return False
    raise overload_error()


_FORMS: Final[Mapping[str, Callable[[Steps, Run | None, Run | None], Run]]] = {
    "all": _quantifier(decisive=False, step_cost=3),
    "exists": _quantifier(decisive=True, step_cost=4),
    "exists_one": _exists_one,
    "filter": _filter,
    "map": _map,
    "transformList": _map,
    "transformMap": _transform_map,
    "transformMapEntry": _transform_entry,
    "sortBy": _sort_by,
}
