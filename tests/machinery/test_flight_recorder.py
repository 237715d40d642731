from sampan.machinery.clock import VirtualClock
from sampan.machinery.flight_recorder import FlightRecorder


def test_records_are_numbered_timed_and_bounded() -> None:
    recorder = FlightRecorder(clock=VirtualClock(start=100), capacity=3)
    for number in range(5):
        recorder.note("apiserver", "create", f"pods/a/{number}", outcome="201")
    assert len(recorder) == 3
    assert [(record.number, record.time, record.subject) for record in recorder.since()] == [
        (3, 100, "pods/a/2"),
        (4, 100, "pods/a/3"),
        (5, 100, "pods/a/4"),
    ]
    assert [record.number for record in recorder.since(4)] == [5]


def test_the_records_of_an_object_are_found_by_its_uid() -> None:
    recorder = FlightRecorder(clock=VirtualClock())
    recorder.note("apiserver", "create", "pods/a/x", uid="1", revision="7", actor="admin", outcome="201")
    recorder.note("kube-scheduler", "bind", "pods/a/x", uid="1", outcome="node-1")
    recorder.note("apiserver", "create", "pods/a/y", uid="2")
    assert [record.action for record in recorder.about("1")] == ["create", "bind"]
    assert [record.action for record in recorder.about("1", after=1)] == ["bind"]
    assert list(recorder.about("3")) == []
