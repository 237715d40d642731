import pytest

from sampan.storage.cacher.history import EventHistory, HistoryBudget, HistoryLimits
from sampan.storage.cacher.item import CacheItem

KEY = "/registry/pods/default/a"


def item(revision: int, size: int = 10) -> CacheItem:
    return CacheItem(KEY, "default", revision, b"", b"x" * size, {}, ())


class Time:
    now = 1000.0


def history(**limits: float) -> EventHistory:
    kept = EventHistory(limits=HistoryLimits(**limits), now=lambda: Time.now)  # type: ignore[arg-type]
    kept.reset(5)
    return kept


def revisions(kept: EventHistory, after: int) -> list[int]:
    return [change.revision for change in kept.list_changes_after(after)]


def test_changes_after_a_revision() -> None:
    kept = history()
    for revision in (7, 9, 9, 12):
        kept.append(revision, KEY, None, item(revision))
    assert revisions(kept, 5) == [7, 9, 9, 12]
    assert revisions(kept, 8) == [9, 9, 12]
    assert revisions(kept, 9) == [12]
    assert revisions(kept, 12) == revisions(kept, 99) == []
    with pytest.raises(ValueError, match="starts after revision 5"):
        kept.list_changes_after(4)


def test_number_of_changes_is_limited() -> None:
    kept = history(events=3)
    for revision in range(6, 12):
        kept.append(revision, KEY, None, item(revision))
    assert (kept.floor, len(kept), revisions(kept, 8)) == (8, 3, [9, 10, 11])


def test_bytes_of_old_objects_are_limited() -> None:
    kept = history(bytes=3000)
    for revision in range(6, 12):
        kept.append(revision, KEY, item(revision - 1, 1000), item(revision, 1_000_000))
    assert (len(kept), kept.floor) == (2, 9)
    assert kept.bytes <= 3000


def test_change_larger_than_the_limit_is_not_kept() -> None:
    kept = history(bytes=3000)
    kept.append(6, KEY, item(5, 5000), item(6))
    assert (len(kept), kept.floor, kept.bytes) == (0, 6, 0)


def test_changes_expire_by_age(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = history(age_s=60.0)
    for revision in range(6, 10):
        kept.append(revision, KEY, None, item(revision))
        monkeypatch.setattr(Time, "now", Time.now + 25)
    kept.trim()
    assert (kept.floor, revisions(kept, 7)) == (7, [8, 9])


def test_memory_of_dropped_changes_is_freed() -> None:
    kept = history(events=100)
    for revision in range(6, 6 + 10_000):
        kept.append(revision, KEY, None, item(revision))
    assert len(kept) == 100
    assert len(kept._changes) < 2500
    assert revisions(kept, 10_000) == [10_001, 10_002, 10_003, 10_004, 10_005]


def make_shared_histories(limit: int, **limits: float) -> tuple[HistoryBudget, list[EventHistory]]:
    budget = HistoryBudget(limit=limit)
    kept = [
        EventHistory(limits=HistoryLimits(**limits), now=lambda: Time.now, budget=budget)  # type: ignore[arg-type]
        for _ in range(3)
    ]
    for history in kept:
        history.reset(5)
    return budget, kept


def test_budget_drops_the_oldest_change_of_all_resources_first() -> None:
    budget, (pods, leases, events) = make_shared_histories(20_000)
    for revision in range(6, 10):
        pods.append(revision, KEY, item(revision - 1, 1000), item(revision))
    for revision in range(10, 100):
        leases.append(revision, KEY, item(revision - 1, 1000), item(revision))
        assert budget.bytes == pods.bytes + leases.bytes <= 20_000
    assert (len(pods), pods.floor) == (0, 9), "the changes of pods were the oldest"
    assert revisions(leases, leases.floor) == list(range(leases.floor + 1, 100))
    assert (len(events), events.floor) == (0, 5), (
        "no change of this resource was dropped, so that no revision is too old"
    )


def test_resources_share_one_history_budget() -> None:
    budget, kept = make_shared_histories(100_000)
    for revision in range(6, 3000):
        kept[revision % 3].append(revision, KEY, item(revision - 1, revision % 700), item(revision))
        assert budget.bytes <= 100_000
    assert budget.bytes == sum(history.bytes for history in kept)
    oldest = [history.floor for history in kept]
    assert max(oldest) - min(oldest) <= 3, "all histories reach back equally far"


def test_budget_stays_consistent_when_a_history_drops_changes_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    budget, (pods, leases, events) = make_shared_histories(50_000, events=20, age_s=60)
    for revision in range(6, 200):
        pods.append(revision, KEY, item(revision - 1, 1000), item(revision))
        if revision % 10 == 0:
            leases.append(revision, KEY, None, item(revision))
    pods.reset(200)
    for revision in range(201, 300):
        (pods, leases, events)[revision % 3].append(revision, KEY, item(revision - 1, 2000), item(revision))
        assert budget.bytes == pods.bytes + leases.bytes + events.bytes <= 50_000
    monkeypatch.setattr(Time, "now", Time.now + 61)
    for history in (pods, leases, events):
        history.trim()
    assert (budget.bytes, len(budget._order)) == (0, 0), "the budget does not grow while changes expire"


def test_replaced_item_does_not_keep_its_decoded_object() -> None:
    old = item(6)
    assert old.object(lambda raw: [raw]) is old.object(lambda raw: [raw])
    old.replace()
    assert old.object(lambda raw: [raw]) == [b"x" * 10]
    assert old.object(lambda raw: [raw]) is not old.object(lambda raw: [raw])
