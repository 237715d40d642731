from sampan.api.types.core_v1 import ObjectReference
from sampan.api.types.discovery_v1 import Endpoint, EndpointConditions, EndpointSlice
from sampan.host.clock import VirtualClock
from sampan.machinery.telemetry.flight_recorder import FlightRecorder, PodAddressTrace


def test_records_are_numbered_timed_and_bounded() -> None:
    recorder = FlightRecorder(clock=VirtualClock(start=100), capacity=3)
    for number in range(5):
        recorder.note("apiserver", "create", f"pods/a/{number}", outcome="201")
    assert len(recorder) == 3
    assert [(record.number, record.time, record.subject) for record in recorder.records_since()] == [
        (3, 100, "pods/a/2"),
        (4, 100, "pods/a/3"),
        (5, 100, "pods/a/4"),
    ]
    assert [record.number for record in recorder.records_since(4)] == [5]


def test_the_records_of_an_object_are_found_by_its_uid() -> None:
    recorder = FlightRecorder(clock=VirtualClock())
    recorder.note("apiserver", "create", "pods/a/x", uid="1", revision="7", actor="admin", outcome="201")
    recorder.note("kube-scheduler", "bind", "pods/a/x", uid="1", outcome="node-1")
    recorder.note("apiserver", "create", "pods/a/y", uid="2")
    assert [record.action for record in recorder.records_about("1")] == ["create", "bind"]
    assert [record.action for record in recorder.records_about("1", after=1)] == ["bind"]
    assert list(recorder.records_about("3")) == []


def endpoint(name: str, ready: bool | None, kind: str = "Pod") -> Endpoint:
    target = ObjectReference(kind=kind, namespace="a", name=name, uid=f"uid-{name}")
    return Endpoint(addresses=["10.0.0.1"], conditions=EndpointConditions(ready=ready), targetRef=target)


def slice_of(*endpoints: Endpoint) -> EndpointSlice:
    return EndpointSlice(addressType="IPv4", endpoints=list(endpoints))


def trace_endpoints(before: EndpointSlice | None, after: EndpointSlice, *, takes_not_ready: bool = False) -> list[str]:
    recorder = FlightRecorder(clock=VirtualClock())
    trace = PodAddressTrace(recorder=recorder, component="dns", action="add to DNS")
    trace.record_endpoints(before, after, "web", takes_not_ready=takes_not_ready)
    assert {(record.component, record.action, record.outcome) for record in recorder.records_since()} <= {
        ("dns", "add to DNS", "web")
    }
    return [record.subject for record in recorder.records_since()]


def test_pods_are_recorded_when_a_slice_first_publishes_them() -> None:
    before = slice_of(endpoint("old", True), endpoint("late", False))
    after = slice_of(endpoint("old", True), endpoint("late", True), endpoint("new", None), endpoint("n", True, "Node"))
    assert trace_endpoints(before, after) == ["pods/a/late", "pods/a/new"]
    assert trace_endpoints(after, after) == []
    assert trace_endpoints(None, before) == ["pods/a/old"]
    assert trace_endpoints(None, before, takes_not_ready=True) == ["pods/a/old", "pods/a/late"]


def test_a_change_with_many_pods_does_not_fill_the_recorder() -> None:
    assert len(trace_endpoints(None, slice_of(*(endpoint(str(number), True) for number in range(1000))))) == 50
