"""Records of pods whose addresses become part of the rules of a node."""

from __future__ import annotations

from itertools import count

from sampan.api.types.core_v1 import ObjectReference
from sampan.api.types.discovery_v1 import Endpoint, EndpointSlice
from sampan.host.clock import RealClock
from sampan.machinery.client import Client
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import key_of
from sampan.machinery.telemetry.flight_recorder import FlightRecorder, PodAddressTrace
from sampan.network.proxy.endpoint_trace import EndpointTrace
from sampan.network.proxy.tracker import ServiceTracker
from tests.network.proxy.objects import NODE, endpoint, endpoint_slice, service


def endpoint_of_pod(number: int, *, ready: bool = True) -> Endpoint:
    entry = endpoint(f"10.0.0.{number}", ready=ready)
    entry.targetRef = ObjectReference(kind="Pod", namespace="default", name=f"p{number}", uid=f"u{number}")
    return entry


class TracedService:
    def __init__(self) -> None:
        informers = InformerFactory(client=Client(transport=None, clock=RealClock(), component="test"))  # type: ignore[arg-type]
        self.slices = informers.for_kind(EndpointSlice)
        self.recorder = FlightRecorder(clock=RealClock())
        trace = PodAddressTrace(recorder=self.recorder, component=f"kube-proxy/{NODE}", action="add to proxy rules")
        self.observer = EndpointTrace(trace=trace, slices=self.slices)
        self.tracker = ServiceTracker(node_name=NODE)
        self.tracker.on_service(None, service())
        self.before: EndpointSlice | None = None
        self.versions = count(1)

    async def sync(self, *endpoints: Endpoint) -> list[str]:
        """Replace the endpoints of the service, and return the pods that are recorded because of that."""
        after = endpoint_slice("web", *endpoints)
        after.metadata.resourceVersion = str(next(self.versions))
        self.slices._put(key_of(after), after)
        self.tracker.on_slice(self.before, after)
        self.before, known = after, len(self.recorder)
        await self.observer.on_changes(self.tracker.take_changes())
        return [record.uid for record in list(self.recorder.records_since())[known:]]


async def test_a_pod_is_recorded_when_the_rules_first_have_its_address() -> None:
    traced = TracedService()
    assert await traced.sync(endpoint_of_pod(1)) == [], "the endpoints of the first sync are older than the proxy"
    assert await traced.sync(endpoint_of_pod(1), endpoint_of_pod(2, ready=False)) == []
    assert await traced.sync(endpoint_of_pod(1), endpoint_of_pod(2)) == ["u2"]
    assert await traced.sync(endpoint_of_pod(2)) == []
    assert await traced.sync(endpoint_of_pod(1), endpoint_of_pod(2), endpoint_of_pod(3)) == ["u1", "u3"]
    record = next(traced.recorder.records_since())
    assert (record.component, record.subject) == (f"kube-proxy/{NODE}", "pods/default/p2")
    assert record.outcome == "service web"
