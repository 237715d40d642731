"""A brute-force oracle: what must happen to a packet according to the objects and the documentation of services."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

from sampan.api.types.core_v1 import Service, ServicePort
from sampan.api.types.discovery_v1 import Endpoint
from sampan.network.proxy.services import HEADLESS, IPV4, IPV6, SERVICE_NAME
from tests.network.proxy.nftables.packet_model import Outcome, Packet
from tests.network.proxy.objects import NODE
from tests.network.proxy.random_services import CLUSTER_CIDRS, NODE_IPS, SERVICE_CIDRS, RandomCluster

Destination = tuple[str, int]


class Oracle:
    def __init__(self, cluster: RandomCluster) -> None:
        self._cluster = cluster

    def outcomes(self, packet: Packet) -> set[Outcome]:
        family = IPV6 if ":" in packet.destination else IPV4
        for item in self._cluster.services.values():
            if HEADLESS in item.metadata.labels:
                continue
            ips = [ip for ip in item.spec.clusterIPs if (":" in ip) == (family == IPV6)]
            if not ips:
                continue
            for port in item.spec.ports:
                if port.protocol.lower() != packet.protocol:
                    continue
                if (packet.destination, packet.port) == (ips[0], port.port):
                    return self._internal_outcomes(packet, item, port, family)
                if self._is_external(packet, item, port, family):
                    return self._external_outcomes(packet, item, port, family)
        return self._outcomes_without_service(packet, family)

    def _outcomes_without_service(self, packet: Packet, family: str) -> set[Outcome]:
        is_for_node = packet.destination in NODE_IPS.values()
        if not is_for_node and self._is_cluster_ip(packet.destination, family):
            return {Outcome("reject")}
        if any(_contains(cidr, packet.destination) for cidr in SERVICE_CIDRS):
            return {Outcome("drop")}
        return {Outcome("pass", packet.destination, packet.port)}

    def _is_cluster_ip(self, address: str, family: str) -> bool:
        items = (item for item in self._cluster.services.values() if HEADLESS not in item.metadata.labels)
        return any(address in item.spec.clusterIPs and item.spec.ports for item in items)

    # -- kinds of traffic --------------------------------------------------------------------------------------------

    def _is_external(self, packet: Packet, item: Service, port: ServicePort, family: str) -> bool:
        if packet.port == port.port and packet.destination in (*item.spec.externalIPs, *_vips(item)):
            return True
        return bool(port.nodePort) and (packet.destination, packet.port) == (NODE_IPS[family], port.nodePort)

    def _internal_outcomes(self, packet: Packet, item: Service, port: ServicePort, family: str) -> set[Outcome]:
        usable = self._endpoints(item, port, family)
        if not self._select_endpoints(usable, is_local=False):
            return {Outcome("reject")}
        is_local = item.spec.internalTrafficPolicy == "Local"
        chosen = self._select_endpoints(usable, is_local=is_local)
        if not chosen:
            return {Outcome("drop")}
        is_from_cluster = any(_contains(cidr, packet.source) for cidr in CLUSTER_CIDRS)
        return self._outcomes_to(packet, chosen, is_masqueraded=not is_from_cluster, usable=usable)

    def _external_outcomes(self, packet: Packet, item: Service, port: ServicePort, family: str) -> set[Outcome]:
        is_vip = packet.port == port.port and packet.destination in _vips(item)
        if is_vip and not self._is_allowed(packet, item, family):
            return {Outcome("drop")}
        usable = self._endpoints(item, port, family)
        all_endpoints = self._select_endpoints(usable, is_local=False)
        if not all_endpoints:
            return {Outcome("reject")}
        if item.spec.externalTrafficPolicy != "Local":
            return self._outcomes_to(packet, all_endpoints, is_masqueraded=True, usable=usable)
        if any(_contains(cidr, packet.source) for cidr in CLUSTER_CIDRS):
            return self._outcomes_to(packet, all_endpoints, is_masqueraded=False, usable=usable)
        if packet.source in NODE_IPS.values():
            return self._outcomes_to(packet, all_endpoints, is_masqueraded=True, usable=usable)
        local = self._select_endpoints(usable, is_local=True)
        return self._outcomes_to(packet, local, is_masqueraded=False, usable=usable) if local else {Outcome("drop")}

    def _is_allowed(self, packet: Packet, item: Service, family: str) -> bool:
        ranges = [cidr for cidr in item.spec.loadBalancerSourceRanges if (":" in cidr) == (family == IPV6)]
        if not ranges or any(_contains(cidr, packet.source) for cidr in ranges):
            return True
        return packet.source in _vips(item) and any(_contains(cidr, NODE_IPS[family]) for cidr in ranges)

    def _outcomes_to(
        self, packet: Packet, chosen: list[Endpoint], *, is_masqueraded: bool, usable: list[tuple[Endpoint, int]]
    ) -> set[Outcome]:
        ports = {_address(endpoint): port for endpoint, port in usable}
        return {
            Outcome(
                "pass",
                _address(endpoint),
                ports[_address(endpoint)],
                is_masqueraded or (_address(endpoint) == packet.source and endpoint.nodeName == NODE),
            )
            for endpoint in chosen
        }

    # -- endpoints ---------------------------------------------------------------------------------------------------

    def _endpoints(self, item: Service, port: ServicePort, family: str) -> list[tuple[Endpoint, int]]:
        """Return the endpoints of a port. A later endpoint replaces an earlier one unless it is terminating."""
        by_address: dict[str, tuple[Endpoint, int]] = {}
        for _, slice in sorted(self._cluster.slices.items()):
            if slice.metadata.labels[SERVICE_NAME] != item.metadata.name or slice.addressType != family:
                continue
            number = next(p.port for p in slice.ports or () if (p.name, p.protocol) == (port.name, port.protocol))
            assert number is not None
            for endpoint in slice.endpoints or ():
                if _address(endpoint) not in by_address or not endpoint.conditions.terminating:
                    by_address[_address(endpoint)] = endpoint, number
        return list(by_address.values())

    def _select_endpoints(self, usable: list[tuple[Endpoint, int]], *, is_local: bool) -> list[Endpoint]:
        endpoints = [endpoint for endpoint, _ in usable]
        ready = [e for e in endpoints if e.conditions.ready]
        draining = [e for e in endpoints if e.conditions.serving and e.conditions.terminating]
        if is_local:
            local = [e for e in ready if e.nodeName == NODE]
            return local or [e for e in draining if e.nodeName == NODE]
        if ready and all(e.hints and e.hints.forNodes for e in ready):
            near = [e for e in ready if NODE in [hint.name for hint in e.hints.forNodes]]  # type: ignore[union-attr]
            if near:
                return near
        if ready and all(e.hints and e.hints.forZones for e in ready):
            near = [e for e in ready if self._cluster.zone in [hint.name for hint in e.hints.forZones]]  # type: ignore[union-attr]
            if near:
                return near
        return ready or draining


def _address(endpoint: Endpoint) -> str:
    assert endpoint.addresses
    return endpoint.addresses[0]


def _vips(item: Service) -> list[str]:
    return [ingress.ip for ingress in item.status.loadBalancer.ingress if ingress.ipMode != "Proxy"]


def _contains(cidr: str, address: str) -> bool:
    return (":" in cidr) == (":" in address) and ip_address(address) in ip_network(cidr)
