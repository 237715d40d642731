"""Conformance tests of sig-instrumentation. The first paragraph of a docstring is the official test name."""

from typing import Any

import pytest

from tests.e2e.conformance.api import STRATEGIC, Api, ApiError, Objects, Value, version_of

SERIES = {"count": 100, "lastObservedTime": "2017-09-19T13:49:16.000000Z"}
EVENTS = "events.k8s.io/v1"


def core_event(api: Api, name: str) -> dict[str, Any]:
    about = {"namespace": api.namespace}
    return {"message": f"This is {name}", "reason": "Test", "type": "Normal", "count": 1, "involvedObject": about}


def modern_event(api: Api, name: str) -> dict[str, Any]:
    return {
        "regarding": {"namespace": api.namespace},
        "eventTime": "2017-09-19T13:49:16.000000Z",
        "note": f"This is {name}",
        "action": "Do",
        "reason": "Test",
        "type": "Normal",
        "reportingController": "test-controller",
        "reportingInstance": "test-node",
    }


def without_version(event: Value) -> Value:
    """Return the event without its resource version and managed fields."""
    meta = {key: value for key, value in event["metadata"].items() if key not in ("resourceVersion", "managedFields")}
    return {**event, "metadata": meta}


def is_listed(api: Api, events: Objects, label: str) -> list[bool]:
    """Whether the event is in the list of all namespaces, and in that of its own namespace."""
    lists = [
        api.get(place, labelSelector=label)["items"] for place in (events.all_namespaces_path, events.collection_path)
    ]
    mine = ("event-test", api.namespace)
    return [mine in [(item["metadata"]["name"], item["metadata"]["namespace"]) for item in items] for items in lists]


def test_lifecycle(api: Api) -> None:
    """[sig-instrumentation] Events should manage the lifecycle of an event [Conformance]"""
    events, label = api.for_resource("events"), "testevent-constant=true"
    events.create("event-test", {"testevent-constant": "true"}, **core_event(api, "event-test"))
    assert is_listed(api, events, label) == [True, True]
    events.patch("event-test", {"message": "This is a test event - patched"}, content=STRATEGIC)
    stored = events.get("event-test")
    assert stored["message"] == "This is a test event - patched"
    expected = {**without_version(stored), "series": SERIES}
    events.update(expected)
    assert without_version(events.get("event-test")) == expected
    events.delete("event-test")
    assert is_listed(api, events, label) == [False, False]


def test_events_v1_lifecycle(api: Api) -> None:
    """[sig-instrumentation] Events API should ensure that an event can be fetched, patched, deleted, and listed
    [Conformance]"""
    events, label = api.for_resource("events", EVENTS), "testevent-constant=true"
    created = events.create("event-test", {"testevent-constant": "true"}, **modern_event(api, "event-test"))
    events.create("other", **{**modern_event(api, "other"), "reportingController": "other-controller"})
    assert is_listed(api, events, label) == [True, True]
    for kind, field in ((api.for_resource("events"), "source"), (events, "reportingController")):
        (event,) = kind.list_all(fieldSelector=f"{field}=test-controller")
        assert event["metadata"]["name"] == "event-test"
    first = {"count": 2, "lastObservedTime": "2017-09-19T13:49:11.000000Z"}
    events.patch("event-test", {"series": first}, content=STRATEGIC)
    patched = events.get("event-test")
    assert version_of(patched) > version_of(created)
    assert without_version(patched) == {**without_version(created), "series": first}
    with pytest.raises(ApiError, match=r"message: Invalid value: .* field is immutable"):
        events.patch("event-test", {"note": "another"}, content=STRATEGIC)
    expected = {**without_version(patched), "series": SERIES}
    events.update(expected)
    assert without_version(events.get("event-test")) == expected
    events.delete("event-test")
    assert is_listed(api, events, label) == [False, False]


@pytest.mark.parametrize(
    ("version", "content"),
    [
        pytest.param("v1", core_event, id="[sig-instrumentation] Events should delete a collection of events"),
        pytest.param(EVENTS, modern_event, id="[sig-instrumentation] Events API should delete a collection of events"),
    ],
)
def test_delete_collection(api: Api, version: str, content: Any) -> None:
    events, names = api.for_resource("events", version), ["test-event-1", "test-event-2", "test-event-3"]
    for name in names:
        events.create(name, {"testevent-set": "true"}, **content(api, name))
    events.create("other", **content(api, "other"))
    assert events.names("testevent-set=true") == names
    events.delete_all("testevent-set=true")
    assert events.names("testevent-set=true") == []
    assert events.names() == ["other"]
