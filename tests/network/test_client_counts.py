"""No client holds more than its part, and all together no more than the server has."""

from sampan.network.client_counts import ClientCounts


def test_one_client_leaves_room_for_others() -> None:
    counts = ClientCounts(most=3, most_per_client=2)
    assert [counts.enter("a"), counts.enter("a"), counts.enter("a")] == [True, True, False]
    assert counts.enter("b")
    assert not counts.enter("c")
    assert (counts.total, counts["a"], counts["b"], counts["c"]) == (3, 2, 1, 0)


def test_what_is_released_can_be_held_again() -> None:
    counts = ClientCounts(most=2, most_per_client=1)
    assert counts.enter("a")
    counts.leave("a")
    assert (counts.total, counts["a"]) == (0, 0)
    assert counts.enter("a")
