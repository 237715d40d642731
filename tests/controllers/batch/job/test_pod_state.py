"""The pods of a job: completion indexes, and the backoff in which failed pods are replaced."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.controllers.batch.job.pod_state import Failures, Indexes, completion_index
from tests.controllers.batch.job.pods import pod

NOW = 1_767_225_600.0


@pytest.mark.parametrize(
    ("failures", "expected"),
    [
        pytest.param(Failures(), 0, id="none"),
        pytest.param(Failures(1, NOW), 10, id="just now"),
        pytest.param(Failures(3, NOW - 5), 35, id="a while ago"),
        pytest.param(Failures(1, NOW - 3600), 0, id="the clock was set forward"),
        pytest.param(Failures(1, NOW + 5), 15, id="the node's clock is a little ahead"),
        pytest.param(Failures(1, NOW + 3600), 0, id="the clock was set back"),
    ],
)
def test_waits(failures: Failures, expected: float) -> None:
    assert failures.wait_s(NOW) == expected


sets = st.sets(st.integers(0, 30))


@pytest.mark.parametrize(
    ("indexes", "text"), [([], ""), ([1], "1"), ([1, 2], "1,2"), ([1, 2, 3], "1-3"), ([0, 2, 4, 5, 6], "0,2,4-6")]
)
def test_how_they_are_written(indexes: list[int], text: str) -> None:
    assert str(Indexes.of(indexes)) == text


@pytest.mark.parametrize(
    ("text", "completions", "expected"),
    [("", 5, []), ("0,2-4", 5, [0, 2, 3, 4]), ("0,2-9", 4, [0, 2, 3]), ("x,1,2-y,3", 5, [1, 3]), ("7", 5, [])],
)
def test_how_they_are_read(text: str, completions: int, expected: list[int]) -> None:
    assert Indexes.parse(text, completions) == Indexes.of(expected)


@given(sets, sets, st.integers(0, 35))
def test_they_are_sets(first: set[int], other: set[int], completions: int) -> None:
    a, b = Indexes.of(first), Indexes.of(other)
    assert Indexes.parse(str(a), 100) == a
    assert len(a) == len(first)
    assert (a | b) == Indexes.of(first | other)
    assert a.overlap(b) == len(first & other)
    assert [index for index in range(31) if index in a] == sorted(first)
    assert list(a.missing(completions)) == [index for index in range(completions) if index not in first]


@pytest.mark.parametrize(("text", "expected"), [("3", 3), ("-1", None), ("x", None), ("", None)])
def test_the_index_of_a_pod(text: str, expected: int | None) -> None:
    new_pod = pod("a", index=0)
    new_pod.metadata.annotations["batch.kubernetes.io/job-completion-index"] = text
    assert completion_index(new_pod) == expected
