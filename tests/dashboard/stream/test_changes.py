"""Changes that a page has not read are bounded, for the page and for all pages together."""

from sampan.dashboard.stream.changes import ChangeBudget, CoalescedChanges


def test_changes_of_a_page_that_does_not_read_are_bounded() -> None:
    changes = CoalescedChanges(ChangeBudget())
    for _ in range(100):
        changes.add("a", b'"row"')
    assert changes.take() == (b'[["PUT","row"]]', False)
    changes.add("a", None)
    assert changes.take() == (b'[["DELETE","a"]]', False)
    row = b"x" * 100_000
    for number in range(1000):
        changes.add(str(number), row)
        if changes.is_overflowed:
            break
    assert changes.is_overflowed
    assert not changes


def test_changes_of_many_pages_that_do_not_read_are_bounded_together() -> None:
    budget = ChangeBudget(max_bytes=10_000)
    unread = [CoalescedChanges(budget) for _ in range(10)]
    reading = CoalescedChanges(budget)
    for changes in (*unread, reading):
        changes.open()
    for number in range(100):
        for changes in unread:
            changes.add(str(number), b"x" * 100)
        assert budget.bytes <= 11_000
        reading.add("a", b"row")
        assert not reading.is_overflowed  # it has less than its share
        reading.take()
    assert any(changes.is_overflowed for changes in unread)
    for changes in (*unread, reading):
        changes.close()
    assert (budget.bytes, budget.subscriptions) == (0, 0)
