"""Delays before retries: growth, limit, reset, and how long failures count."""

from sampan.host.backoff import Backoff, FailureBackoff, RetryDelays


def test_delay_doubles_up_to_the_limit() -> None:
    backoff = Backoff(first_s=1, max_s=10)
    assert [backoff.delay_after(failures) for failures in range(6)] == [1, 2, 4, 8, 10, 10]
    assert backoff.delay_after(10**6) == 10


def test_first_delay_respects_the_limit() -> None:
    assert Backoff(first_s=10, max_s=3).delay_after(0) == 3
    failure = FailureBackoff(Backoff(first_s=10, max_s=3), reset_s=60)
    failure.lengthen(0, 0)
    assert failure.delay_s == 3


def test_delays_of_a_loop_begin_again_after_a_success() -> None:
    delays = RetryDelays(Backoff(first_s=1, max_s=3))
    assert [delays.next_s() for _ in range(4)] == [1, 2, 3, 3]
    delays.reset()
    assert [delays.next_s() for _ in range(2)] == [1, 2]


def test_nothing_waits_before_the_first_failure() -> None:
    assert FailureBackoff(Backoff(1, 8), reset_s=20).remaining_s(5, 5) == 0


def test_remaining_time_counts_from_the_failure() -> None:
    failure = FailureBackoff(Backoff(first_s=4, max_s=60), reset_s=100)
    failure.lengthen(10, 12)
    assert [failure.remaining_s(20, now) for now in (20, 21, 24, 30)] == [4, 3, 0, 0]
    failure.lengthen(20, 24)
    assert failure.remaining_s(30, 30) == 8


def test_failures_are_forgotten_after_a_time_without_one() -> None:
    failure = FailureBackoff(Backoff(first_s=4, max_s=60), reset_s=100)
    failure.lengthen(0, 0)
    failure.lengthen(4, 4)
    assert (failure.delay_s, failure.is_forgotten(104), failure.is_forgotten(104.5)) == (8, False, True)
    assert failure.remaining_s(104.5, 104.5) == 0
    failure.lengthen(104.5, 104.5)
    assert failure.delay_s == 4
