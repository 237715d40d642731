"""The pauses between tries."""

from sampan.kubelet.records import BackOff


def test_doubled_up_to_five_minutes() -> None:
    back_off, now, pauses = BackOff(), 1000.0, []
    for _ in range(8):
        now += back_off.left_s(now, now)
        back_off.lengthen(now, now)
        pauses.append(back_off.pause_s)
    assert pauses == [10, 20, 40, 80, 160, 300, 300, 300]


def test_the_first_try_again_is_at_once() -> None:
    assert BackOff().left_s(1000, 1000) == 0


def test_counted_from_the_failure() -> None:
    back_off = BackOff()
    back_off.lengthen(1000, 1000)
    assert back_off.left_s(1003, 1005) == 8
    assert back_off.left_s(1003, 1013) == 0


def test_forgotten_after_ten_minutes_that_went_well() -> None:
    back_off = BackOff(pause_s=160, since=1000)
    assert back_off.left_s(1600, 1600) == 160
    assert back_off.left_s(1601, 1601) == 0
    back_off.lengthen(1601, 1601)
    assert back_off.pause_s == 10


def test_the_longest_pause_can_be_set() -> None:
    back_off, pauses = BackOff(most_s=25), []
    for _ in range(4):
        back_off.lengthen(back_off.since, back_off.since)
        pauses.append(back_off.pause_s)
    assert pauses == [10, 20, 25, 25]
    short = BackOff(most_s=1)
    short.lengthen(0, 0)
    assert short.pause_s == 1
