"""Random services and endpoints, and random changes of them, reproducible from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator

from sampan.api.types.core_v1 import LoadBalancerIngress, Node, Service, ServicePort
from sampan.api.types.discovery_v1 import Endpoint, EndpointPort, EndpointSlice
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.network.proxy.services import HEADLESS, IPV4, IPV6, SERVICE_NAME, ZONE
from sampan.network.proxy.tracker import ServiceTracker
from tests.network.proxy.objects import NODE, OTHER_NODE, endpoint, service

ZONES = ("a", "b")
NODE_IPS = {IPV4: "192.0.2.1", IPV6: "2001:db8::1"}
CLIENT_IPS = {IPV4: ("198.51.100.7", "203.0.113.9"), IPV6: ("2001:db8:1::7", "2001:db8:2::9")}
"""The addresses of clients outside of the cluster."""
EXTERNAL_IPS = {IPV4: ("192.0.2.201", "192.0.2.202"), IPV6: ("2001:db8::201", "2001:db8::202")}
LOAD_BALANCER_IPS = {IPV4: ("192.0.2.101", "192.0.2.102"), IPV6: ("2001:db8::101", "2001:db8::102")}
SOURCES = ("198.51.100.0/24", "203.0.113.9/32", "192.0.2.0/24", "2001:db8:1::/48", "2001:db8::/64")
CLUSTER_CIDRS = ("10.244.0.0/16", "fd00:10:244::/48")
SERVICE_CIDRS = ("10.96.0.0/24", "fd00:10:96::/112")


def pod_ip(family: str, number: int) -> str:
    return f"10.244.0.{number + 2}" if family == IPV4 else f"fd00:10:244::{number + 2:x}"


def cluster_ip(family: str, number: int) -> str:
    return f"10.96.0.{number + 1}" if family == IPV4 else f"fd00:10:96::{number + 1:x}"


class RandomCluster:
    """The objects of a small cluster, which change at random."""

    def __init__(self, seed: int, *, count: int = 6) -> None:
        self.random = random.Random(seed)
        self.count = count
        self.services: dict[str, Service] = {}
        self.slices: dict[str, EndpointSlice] = {}
        self.zone = self.random.choice(ZONES)

    def node(self) -> Node:
        return Node(metadata=ObjectMeta(name=NODE, labels={ZONE: self.zone}))

    def track(self, tracker: ServiceTracker) -> None:
        """Pass all objects to a new tracker."""
        tracker.on_node(None, self.node())
        for slice in self.slices.values():
            tracker.on_slice(None, slice)
        for item in self.services.values():
            tracker.on_service(None, item)

    def fill(self) -> RandomCluster:
        for number in range(self.count):
            self._put_service(number, None)
            for _ in self._put_slices(number, None):
                pass
        return self

    def change(self, tracker: ServiceTracker) -> None:
        """Make a random change, and pass it to the tracker."""
        number, choice = self.random.randrange(self.count), self.random.random()
        name = f"svc-{number}"
        if choice < 0.35:
            self._put_service(number, tracker)
        elif choice < 0.8:
            for _ in self._put_slices(number, tracker):
                pass
        elif choice < 0.9 and name in self.services:
            tracker.on_service(self.services.pop(name), None)
        elif choice < 0.95:
            for slice_name in [n for n in self.slices if n.startswith(f"{name}-")]:
                tracker.on_slice(self.slices.pop(slice_name), None)
        else:
            before, self.zone = self.node(), self.random.choice(ZONES)
            tracker.on_node(before, self.node())

    # -- objects -----------------------------------------------------------------------------------------------------

    def _put_service(self, number: int, tracker: ServiceTracker | None) -> None:
        name = f"svc-{number}"
        old, new = self.services.get(name), self._service(number)
        self.services[name] = new
        if tracker is not None:
            tracker.on_service(old, new)

    def _service(self, number: int) -> Service:
        chance = self.random
        families = chance.choice([(IPV4,), (IPV6,), (IPV4, IPV6), (IPV4, IPV6)])
        type_ = chance.choice(["ClusterIP", "NodePort", "LoadBalancer", "LoadBalancer"])
        spec: dict[str, object] = {"type": type_}
        if chance.random() < 0.1:
            spec["labels"] = {HEADLESS: ""}
        if type_ != "ClusterIP" or chance.random() < 0.3:
            spec["externalTrafficPolicy"] = chance.choice(["Cluster", "Local"])
        spec["internalTrafficPolicy"] = chance.choice(["Cluster", "Cluster", "Local"])
        if chance.random() < 0.3:
            spec["affinity_s"] = chance.choice([30, 60])
        addresses = [address for family in families for address in EXTERNAL_IPS[family]]
        if chance.random() < 0.3:
            spec["externalIPs"] = chance.sample(addresses, chance.randint(1, len(addresses)))
        if type_ == "LoadBalancer" and chance.random() < 0.5:
            spec["loadBalancerSourceRanges"] = chance.sample(SOURCES, chance.randint(1, 3))
        generated = service(
            f"svc-{number}", *self._ports(number, type_), ip=[cluster_ip(f, number) for f in families], **spec
        )
        if type_ == "LoadBalancer":
            vips = [address for family in families for address in LOAD_BALANCER_IPS[family]]
            generated.status.loadBalancer.ingress = [
                LoadBalancerIngress(ip=ip, ipMode=chance.choice([None, "VIP", "VIP", "Proxy"]))
                for ip in chance.sample(vips, chance.randint(0, len(vips)))
            ]
        return generated

    def _ports(self, number: int, type_: str) -> list[ServicePort]:
        """Return ports that differ between services, so that services may share addresses without a conflict."""
        protocols = self.random.sample(["TCP", "UDP", "SCTP"], self.random.randint(1, 2))
        return [
            ServicePort(
                name=f"p-{protocol.lower()}",
                protocol=protocol,
                port=8000 + number,
                nodePort=30000 + number if type_ != "ClusterIP" else 0,
            )
            for protocol in protocols
        ]

    def _put_slices(self, number: int, tracker: ServiceTracker | None) -> Iterator[None]:
        for family in (IPV4, IPV6):
            for part in range(self.random.choice([1, 1, 2])):
                name = f"svc-{number}-{family.lower()}-{part}"
                old, new = self.slices.get(name), self._slice(number, family, name)
                self.slices[name] = new
                if tracker is not None:
                    tracker.on_slice(old, new)
                yield

    def _slice(self, number: int, family: str, name: str) -> EndpointSlice:
        return EndpointSlice(
            metadata=ObjectMeta(name=name, namespace="default", labels={SERVICE_NAME: f"svc-{number}"}),
            addressType=family,
            endpoints=[self._endpoint(family) for _ in range(self.random.choice([0, 1, 2, 4]))],
            ports=[
                EndpointPort(name=f"p-{protocol.lower()}", protocol=protocol, port=port)
                for protocol, port in (("TCP", 80), ("UDP", 53), ("SCTP", 99))
            ],
        )

    def _endpoint(self, family: str) -> Endpoint:
        chance = self.random
        is_terminating = chance.random() < 0.25
        has_hints = chance.random() < 0.7
        number = chance.randrange(12)
        return endpoint(
            pod_ip(family, number),
            node=(NODE, OTHER_NODE, NODE, None)[number % 4],
            ready=not is_terminating and chance.random() < 0.8,
            serving=chance.random() < 0.8,
            terminating=is_terminating,
            zones=chance.sample(ZONES, chance.randint(1, 2)) if has_hints else (),
            nodes=[chance.choice([NODE, OTHER_NODE])] if has_hints and chance.random() < 0.8 else (),
        )
