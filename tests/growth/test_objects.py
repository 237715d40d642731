"""Nothing that the server does with an object costs more than n log n in the length of any of its lists and maps.

Each list and map of each kind is grown to n and to 4 n items, of all kinds that a client could send, and the CPU time
of dry runs is compared. The fast form takes one kind for each field that several kinds share (pod templates, metadata);
the long form (`make soak`) takes more items (ten times as many for creations), and creates every field of
every kind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tests.growth.cost import Growth, report
from tests.growth.grown_objects import MODES
from tests.growth.objects import (
    Case,
    Change,
    create_growth,
    distinct_cases,
    distinct_cases_of_pods_and_templates,
    every_case,
    measured_cluster,
    replace_values,
    reverse_order,
    string_cases,
    update_growths,
)

ITEMS, MANY_ITEMS, MANY_UPDATED_ITEMS = 2_000, 20_000, 6_000
CHARACTERS = 40_000
PARTS = 8
"""Tests that the cases are divided among, so that workers share them."""


async def _offenders(cases: Sequence[Case], count: int, changes: Sequence[Change]) -> list[Growth]:
    problems = []
    async with measured_cluster() as server:
        for case in cases:
            if changes:
                problems += await update_growths(server, case, count, changes)
            else:
                problems.append(await create_growth(server, case, count))
    return [cost for cost in problems if cost.is_too_fast]


def _check(cases: Sequence[Case], count: int, *changes: Change) -> None:
    """Check creations, or updates that change the objects in these ways."""
    offenders = asyncio.run(_offenders(cases, count, changes))
    assert not offenders, report(offenders)


@pytest.mark.parametrize("part", range(PARTS))
def test_creation_of_grown_objects_costs_at_most_n_log_n(part: int) -> None:
    _check(distinct_cases(MODES)[part::PARTS], ITEMS)


@pytest.mark.parametrize("part", range(PARTS))
def test_update_of_grown_objects_costs_at_most_n_log_n(part: int) -> None:
    _check(distinct_cases(("distinct",))[part::PARTS], ITEMS // 2, replace_values)


@pytest.mark.parametrize("part", range(PARTS))
def test_creation_of_objects_with_long_strings_costs_at_most_n_log_n(part: int) -> None:
    """Each field gets one shape; the shapes rotate from field to field."""
    cases = [case for number, case in enumerate(string_cases(distinct=True)) if number // 17 % 17 == number % 17]
    _check(cases[part::PARTS], CHARACTERS)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(PARTS))
def test_creation_with_every_long_string_costs_at_most_n_log_n(part: int) -> None:
    _check(list(string_cases(distinct=True))[part::PARTS], 10 * CHARACTERS)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("mode", MODES)
def test_creation_with_every_grown_field_costs_at_most_n_log_n(mode: str) -> None:
    _check(list(every_case((mode,))), MANY_ITEMS)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("mode", MODES)
def test_update_with_every_grown_field_costs_at_most_n_log_n(mode: str, part: int) -> None:
    """Updates treat a field alike in every kind, except that pods and templates have rules of their own for fields that
    may change."""
    cases = distinct_cases_of_pods_and_templates((mode,))[part::PARTS]
    _check(cases, MANY_UPDATED_ITEMS, replace_values, reverse_order)
