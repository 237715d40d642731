"""The pods of a job: completion indexes, finish times, and the backoff in which failed pods are replaced."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.controllers.batch.job.pod_state import (
    CompletionIndexes,
    JobFailures,
    completion_index,
    finish_time,
    update_failures,
)
from tests.controllers.batch.job.pods import NOW, pod


@pytest.mark.parametrize(
    ("failures", "expected"),
    [
        pytest.param(JobFailures(), 0, id="no failures"),
        pytest.param(JobFailures(1, NOW), 10, id="failed just now"),
        pytest.param(JobFailures(3, NOW - 5), 35, id="failed 5 s ago"),
        pytest.param(JobFailures(1, NOW - 3600), 0, id="clock set forward"),
        pytest.param(JobFailures(1, NOW + 5), 15, id="node clock slightly ahead"),
        pytest.param(JobFailures(1, NOW + 3600), 0, id="clock set back"),
    ],
)
def test_remaining_back_off_tolerates_clock_changes(failures: JobFailures, expected: float) -> None:
    assert failures.wait_s(NOW) == expected


sets = st.sets(st.integers(0, 30))


@pytest.mark.parametrize(
    ("indexes", "text"), [([], ""), ([1], "1"), ([1, 2], "1,2"), ([1, 2, 3], "1-3"), ([0, 2, 4, 5, 6], "0,2,4-6")]
)
def test_indexes_are_written_as_ranges(indexes: list[int], text: str) -> None:
    assert str(CompletionIndexes.from_indexes(indexes)) == text


@pytest.mark.parametrize(
    ("text", "completions", "expected"),
    [("", 5, []), ("0,2-4", 5, [0, 2, 3, 4]), ("0,2-9", 4, [0, 2, 3]), ("x,1,2-y,3", 5, [1, 3]), ("7", 5, [])],
)
def test_parsed_indexes_exclude_invalid_and_out_of_range_parts(
    text: str, completions: int, expected: list[int]
) -> None:
    assert CompletionIndexes.parse(text, completions) == CompletionIndexes.from_indexes(expected)


@given(sets, sets, st.integers(0, 35))
def test_indexes_behave_like_sets(first: set[int], other: set[int], completions: int) -> None:
    a, b = CompletionIndexes.from_indexes(first), CompletionIndexes.from_indexes(other)
    assert CompletionIndexes.parse(str(a), 100) == a
    assert len(a) == len(first)
    assert (a | b) == CompletionIndexes.from_indexes(first | other)
    assert a.overlap(b) == len(first & other)
    assert [index for index in range(31) if index in a] == sorted(first)
    assert list(a.iterate_missing(completions)) == [index for index in range(completions) if index not in first]


@pytest.mark.parametrize(("text", "expected"), [("3", 3), ("-1", None), ("x", None), ("", None)])
def test_invalid_completion_index_is_none(text: str, expected: int | None) -> None:
    new_pod = pod("a", index=0)
    new_pod.metadata.annotations["batch.kubernetes.io/job-completion-index"] = text
    assert completion_index(new_pod) == expected


@pytest.mark.parametrize(("failures", "expected"), [(0, 0), (1, 10), (2, 20), (6, 320), (7, 600), (60, 600)])
def test_the_back_off_doubles_with_each_failure_up_to_ten_minutes(failures: int, expected: float) -> None:
    assert JobFailures(failures, NOW).wait_s(NOW) == expected
    assert JobFailures(failures, NOW - 1000).wait_s(NOW) == 0


def test_success_resets_earlier_failures() -> None:
    earlier_failures = JobFailures(3, NOW - 100)
    old, new = pod("old", "Failed", ended_s=50), pod("new", "Failed", ended_s=10)
    done = pod("done", "Succeeded", ended_s=20)
    assert update_failures(earlier_failures, [], []) == earlier_failures
    assert update_failures(earlier_failures, [], [new, old]) == JobFailures(5, NOW - 10)
    assert update_failures(earlier_failures, [done], [new, old]) == JobFailures(1, NOW - 10)
    assert update_failures(earlier_failures, [done], []) == JobFailures()


def test_finish_time_of_terminated_and_deleted_pods() -> None:
    assert finish_time(pod("a", "Failed", ended_s=7)) == NOW - 7
    deleted = pod("a", is_deleted=True)
    deleted.metadata.deletionGracePeriodSeconds = 30
    assert finish_time(deleted) == NOW - 30
    assert finish_time(pod("a")) == NOW
