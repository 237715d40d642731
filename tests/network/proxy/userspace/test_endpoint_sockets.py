from __future__ import annotations

from sampan.host.clock import VirtualClock
from sampan.network.proxy.services import IPV4, EndpointInfo, ServicePortInfo, ServicePortName
from sampan.network.proxy.userspace.endpoint_sockets import EndpointBalancer

ENDPOINTS = [EndpointInfo(f"10.0.0.{number}", 80) for number in range(1, 4)]


def info(name: str = "web", affinity_s: int = 0) -> ServicePortInfo:
    return ServicePortInfo(
        name=ServicePortName("default", name, "", "TCP"),
        family=IPV4,
        cluster_ip="10.96.0.10",
        port=80,
        affinity_timeout_s=affinity_s,
    )


class Balance:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.balancer = EndpointBalancer(clock=self.clock)

    def connect(self, port: ServicePortInfo, client: str = "192.0.2.1", count: int = 3) -> str:
        endpoint = self.balancer.candidates(port, ENDPOINTS[:count], client)[0]
        self.balancer.on_connected(port, endpoint, client)
        return endpoint.address[-1]


def test_round_robin_of_each_service() -> None:
    balance = Balance()
    assert "".join(balance.connect(info()) for _ in range(6)) == "123123"
    assert balance.connect(info("other")) == "1"
    assert balance.connect(info(), count=1) == "1"
    assert balance.balancer.candidates(info(), [], "192.0.2.1") == []


def test_all_endpoints_are_candidates() -> None:
    balance = Balance()
    balance.connect(info())
    candidates = balance.balancer.candidates(info(), ENDPOINTS, "192.0.2.1")
    assert [candidate.address[-1] for candidate in candidates] == ["2", "3", "1"]


async def test_session_affinity_is_prolonged_by_connections_and_expires() -> None:
    balance, port = Balance(), info(affinity_s=60)
    assert [balance.connect(port, client) for client in ("a", "b", "a", "b", "c")] == ["1", "2", "1", "2", "3"]
    await balance.clock.advance(40)
    assert balance.connect(port, "b") == "2"
    await balance.clock.advance(40)
    assert balance.connect(port, "b") == "2", "each connection prolongs the session"
    assert balance.connect(port, "c") == "1", "the session has expired"


def test_session_affinity_to_a_removed_endpoint_is_dropped() -> None:
    balance, port = Balance(), info(affinity_s=60)
    assert [balance.connect(port, client) for client in "abc"] == ["1", "2", "3"]
    assert balance.connect(port, "c", count=2) in ("1", "2")
