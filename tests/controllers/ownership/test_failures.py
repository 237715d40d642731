"""When pods that fail again and again are replaced."""

from sampan.controllers.ownership.pods import FailureBackoff


def test_failures_wait_longer_each_time() -> None:
    backoff, now, waits = FailureBackoff(), 0.0, []
    for _ in range(12):
        assert backoff.held_s("k", now) == 0
        backoff.note("k", now)
        waits.append(backoff.held_s("k", now))
        now += waits[-1]
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]
    assert backoff.held_s("other", now) == 0
    now += 1801
    backoff.note("k", now)
    assert backoff.held_s("k", now) == 1, "after a long rest it begins anew"
