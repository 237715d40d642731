"""Limits on what one client, and all clients together, may hold of a server."""

from sampan.network.client_counts import ClientCounts


def test_limits_per_client_and_in_total() -> None:
    counts = ClientCounts(maximum=3, max_per_client=2)
    assert [counts.enter("a"), counts.enter("a"), counts.enter("a")] == [True, True, False]
    assert counts.enter("b")
    assert not counts.enter("c")
    assert (counts.total, counts["a"], counts["b"], counts["c"]) == (3, 2, 1, 0)


def test_slot_can_be_taken_again_after_release() -> None:
    counts = ClientCounts(maximum=2, max_per_client=1)
    assert counts.enter("a")
    counts.leave("a")
    assert (counts.total, counts["a"]) == (0, 0)
    assert counts.enter("a")
