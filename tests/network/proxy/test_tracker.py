from __future__ import annotations

import msgspec

from sampan.api.limits import NODE_SERVICE_PAIRS, SERVICE_FREE_PAIRS
from sampan.api.types.core_v1 import Node, Service
from sampan.api.types.discovery_v1 import EndpointPort
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.machinery.object_key import NamespacedName
from sampan.network.proxy.services import ZONE
from sampan.network.proxy.tracker import TRIGGER_TIME, ServiceTracker
from tests.network.proxy.objects import NODE, endpoint, endpoint_slice, port, service

WEB = NamespacedName("default", "web")


def tracker_of(*names: str) -> ServiceTracker:
    tracker = ServiceTracker(node_name=NODE)
    for name in names:
        tracker.on_service(None, service(name))
    tracker.take_changes()
    return tracker


def test_new_service_and_its_endpoints_are_one_change() -> None:
    notified: list[None] = []
    tracker = ServiceTracker(node_name=NODE, notify=lambda: notified.append(None))
    tracker.on_slice(None, endpoint_slice("web", endpoint("10.0.0.1", node=NODE)))
    tracker.on_service(None, service())
    assert len(notified) == 2
    [change] = tracker.take_changes()
    assert (change.service, change.previous) == (WEB, ())
    assert [e.is_local for e in change.current[0].endpoints] == [True]
    assert tracker.services == {WEB: change.current}
    assert tracker.take_changes() == []


def large_service(name: str, created: str) -> Service:
    """Return a service of 30 KB with 40,000 pairs of ports and addresses."""
    ports = [port(number, name=f"p{number}") for number in range(1, 801)]
    large = service(name, *ports, externalIPs=[f"192.0.2.{number}" for number in range(1, 50)])
    large.metadata.creationTimestamp = created
    return large


def test_oldest_services_keep_their_rules_when_the_node_limit_is_reached() -> None:
    """Newer services are limited to the pairs that every service may have, until an older service is deleted."""
    tracker = ServiceTracker(node_name=NODE)
    victim = NamespacedName("default", "zzz")
    for number in range(20):
        tracker.on_service(None, large_service(f"a{number}", "2026-01-02T00:00:00Z"))
    tracker.on_service(None, large_service(victim.name, "2026-01-01T00:00:00Z"))
    changes = tracker.take_changes()
    assert len(tracker.services[victim]) == 800
    assert sum(len(ports) * 50 for ports in tracker.services.values()) <= NODE_SERVICE_PAIRS + 21 * SERVICE_FREE_PAIRS
    limited = [change.service for change in changes if change.problems]
    assert len(limited) == 16
    assert all(len(tracker.services[name]) == SERVICE_FREE_PAIRS // 50 for name in limited[1:])
    tracker.on_service(large_service("zzz", ""), None)
    assert tracker.take_changes()
    assert len([change for change in tracker.take_changes() if len(change.current) == 800]) == 1


def test_small_service_is_complete_when_the_node_limit_is_reached() -> None:
    """Large services use up the limit of the node; a small service still has all its ports and endpoints."""
    tracker = ServiceTracker(node_name=NODE)
    for number in range(20):
        tracker.on_service(None, large_service(f"a{number}", "2026-01-01T00:00:00Z"))
    tracker.take_changes()
    tracker.on_service(None, service("web", port(80, name="http"), port(443, name="https")))
    addresses = [endpoint(f"10.0.0.{number}") for number in range(1, 21)]
    backends = endpoint_slice("web", *addresses, port_name="http")
    backends.ports = [EndpointPort(name=name, protocol="TCP", port=8080) for name in ("http", "https")]
    tracker.on_slice(None, backends)
    (change,) = tracker.take_changes()
    assert [len(state.endpoints) for state in change.current] == [20, 20]
    assert not change.problems


def test_irrelevant_changes_are_not_reported() -> None:
    tracker = tracker_of("web")
    tracker.on_service(service(), service(labels={"a": "b"}))
    tracker.on_slice(None, endpoint_slice("other", endpoint("10.0.0.1")))
    assert tracker.take_changes() == []


def test_changes_that_cancel_each_other_out_are_not_reported() -> None:
    tracker = tracker_of("web")
    slice = endpoint_slice("web", endpoint("10.0.0.1"))
    tracker.on_slice(None, slice)
    tracker.on_slice(slice, None)
    assert tracker.take_changes() == []


def test_deleted_service_is_a_change_without_ports() -> None:
    tracker = tracker_of("web", "other")
    tracker.on_service(service(), None)
    [change] = tracker.take_changes()
    assert (change.service, change.current) == (WEB, ())
    assert WEB not in tracker.services


def test_slice_that_moves_to_another_service_changes_both_services() -> None:
    tracker = tracker_of("web", "other")
    before, after = (endpoint_slice(name, endpoint("10.0.0.1"), name="slice") for name in ("web", "other"))
    tracker.on_slice(None, before)
    tracker.take_changes()
    tracker.on_slice(before, after)
    changes = {change.service.name: len(change.current[0].endpoints) for change in tracker.take_changes()}
    assert changes == {"web": 0, "other": 1}


def test_zone_of_the_own_node_selects_endpoints() -> None:
    tracker = tracker_of("web")
    tracker.on_slice(None, endpoint_slice("web", endpoint("10.0.0.1", zones=["a"]), endpoint("10.0.0.2", zones=["b"])))
    tracker.take_changes()
    for name, zone in [("another", "b"), (NODE, "b")]:
        tracker.on_node(None, Node(metadata=ObjectMeta(name=name, labels={ZONE: zone})))
        changes = tracker.take_changes()
    [change] = changes
    assert [e.address for e in change.current[0].categories.cluster] == ["10.0.0.2"]


def test_trigger_times_come_from_the_slice_annotation() -> None:
    tracker = tracker_of("web")
    slice = endpoint_slice("web", endpoint("10.0.0.1"))
    annotated = msgspec.structs.replace(
        slice, metadata=msgspec.structs.replace(slice.metadata, annotations={TRIGGER_TIME: "2026-01-02T03:04:05Z"})
    )
    tracker.on_slice(None, annotated)
    [change] = tracker.take_changes()
    assert [time.isoformat() for time in change.trigger_times] == ["2026-01-02T03:04:05+00:00"]
