"""Correlation of events: repetitions are counted, similar events combined, and excess events dropped."""

from sampan.api.types.core_v1 import Event, EventSource, ObjectReference
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.machinery.events import COMBINED, CorrelatedEvent, CorrelatorConfig, EventCorrelator


def event(message: str = "m", *, name: str = "p", reason: str = "Because", number: int = 0) -> Event:
    return Event(
        metadata=ObjectMeta(name=f"{name}.{number:x}", namespace="a"),
        involvedObject=ObjectReference(kind="Pod", namespace="a", name=name, uid=f"uid-{name}", apiVersion="v1"),
        reason=reason,
        message=message,
        source=EventSource(component="c"),
        firstTimestamp="2026-01-01T00:00:00Z",
        lastTimestamp="2026-01-01T00:00:00Z",
        count=1,
        type="Normal",
    )


def correlate(correlator: EventCorrelator, event: Event, now: float = 0) -> CorrelatedEvent:
    correlated = correlator.correlate(event, now)
    assert correlated is not None
    return correlated


def test_repeated_event_updates_the_count_of_the_first() -> None:
    correlator = EventCorrelator()
    first = correlate(correlator, event(number=1))
    assert (first.is_update, first.event.count, first.event.metadata.name) == (False, 1, "p.1")
    correlator.record_stored(first.key, first.event)
    for count in (2, 3):
        again = correlate(correlator, event(number=7))
        assert (again.is_update, again.event.count, again.event.metadata.name) == (True, count, "p.1")


def test_another_object_reason_or_message_is_another_event() -> None:
    correlator = EventCorrelator()
    correlate(correlator, event())
    for other in (event("other"), event(name="q"), event(reason="Other")):
        assert not correlate(correlator, other).is_update


def test_similar_events_are_combined_from_the_tenth_on() -> None:
    correlator = EventCorrelator()
    results = [correlate(correlator, event(f"message {number}", number=number)) for number in range(12)]
    assert [correlated.event.message for correlated in results[:9]] == [f"message {number}" for number in range(9)]
    assert [correlated.event.message for correlated in results[9:]] == [f"{COMBINED}message {n}" for n in range(9, 12)]
    assert [correlated.is_update for correlated in results] == [False] * 10 + [True] * 2
    assert [correlated.event.count for correlated in results[9:]] == [1, 2, 3]
    assert {correlated.event.metadata.name for correlated in results[9:]} == {"p.9"}


def test_similar_events_are_no_longer_combined_after_ten_minutes() -> None:
    correlator = EventCorrelator()
    for number in range(11):
        correlate(correlator, event(f"message {number}"))
    assert correlate(correlator, event("late"), now=601).event.message == "late"


def test_events_of_one_object_are_rate_limited() -> None:
    correlator = EventCorrelator()
    results = [correlator.correlate(event(f"message {number % 3}"), now=0) for number in range(30)]
    assert sum(correlated is not None for correlated in results) == 25
    assert correlator.correlate(event(name="q"), now=0) is not None
    assert correlator.correlate(event(), now=299) is None
    assert correlator.correlate(event(), now=300) is not None
    assert correlator.correlate(event(), now=301) is None


def test_number_of_remembered_events_is_limited() -> None:
    correlator = EventCorrelator(CorrelatorConfig(remembered=2))
    for name in "abc":
        correlate(correlator, event(name=name))
    assert correlate(correlator, event(name="c")).is_update
    assert not correlate(correlator, event(name="a")).is_update
