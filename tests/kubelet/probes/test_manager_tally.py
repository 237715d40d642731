"""Successes and failures of a probe, counted up to its thresholds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.types.core_v1 import Probe
from sampan.kubelet.probes.manager import Kind, ProbeTally


@pytest.mark.parametrize(
    ("kind", "results", "values"),
    [
        ("Readiness", "+", [True]),
        ("Readiness", "-", [False]),
        ("Readiness", "+--+---", [True, True, True, True, True, True, False]),
        ("Liveness", "---", [True, True, False]),
        ("Liveness", "--+--", [True] * 5),
        ("Startup", "--+", [None, None, True]),
        ("Startup", "---", [None, None, False]),
    ],
)
def test_a_result_changes_at_its_threshold(kind: Kind, results: str, values: list[bool | None]) -> None:
    tally, probe = ProbeTally(kind), Probe(failureThreshold=3, successThreshold=1)
    tally.start("id")
    states = []
    for result in results:
        tally.count(result == "+", probe)
        states.append(tally.value)
    assert states == values


def test_a_failed_probe_is_on_hold_until_the_container_restarts() -> None:
    tally, probe = ProbeTally("Liveness"), Probe(failureThreshold=1)
    tally.start("one")
    assert tally.count(False, probe)
    assert tally.is_on_hold
    tally.start("two")
    assert (tally.is_on_hold, tally.value) == (False, True)


@given(st.lists(st.booleans(), max_size=30), st.integers(1, 4), st.integers(1, 4))
def test_readiness_follows_the_last_run_of_equal_results(results: list[bool], successes: int, failures: int) -> None:
    tally, probe = ProbeTally("Readiness"), Probe(failureThreshold=failures, successThreshold=successes)
    tally.start("id")
    expected: bool = False
    for at, result in enumerate(results):
        before = tally.value
        changed = tally.count(result, probe)
        needed = successes if result else failures
        if at + 1 >= needed and all(other == result for other in results[at + 1 - needed : at + 1]):
            expected = result
        assert tally.value is expected
        assert changed is (before is not expected)
