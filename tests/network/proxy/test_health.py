from __future__ import annotations

import json

from aiohttp import ClientSession

from sampan.api.types.core_v1 import Node, NodeSpec, Taint
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.host.clock import VirtualClock
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.machinery.telemetry.metrics import Metrics
from sampan.network.proxy.health import TO_BE_DELETED_TAINT, ProxyHealth, health_port
from sampan.network.proxy.metrics import ProxyMetrics
from sampan.network.proxy.services import IPV4, IPV6
from tests.network.proxy.objects import NODE
from tests.ports import free_port

TIMEOUT_S = 60


class Proxy:
    def __init__(self) -> None:
        self.clock, self.metrics = VirtualClock(), Metrics()
        self.health = ProxyHealth(
            node_name=NODE,
            clock=self.clock,
            timeout_s=TIMEOUT_S,
            metrics=ProxyMetrics(self.metrics, clock=self.clock),
        )


async def test_proxy_is_unhealthy_if_a_queued_change_exceeds_the_timeout() -> None:
    proxy = Proxy()
    assert proxy.health.healthz().status == 200
    proxy.health.on_synced(IPV4)
    proxy.health.on_synced(IPV6)
    await proxy.clock.advance(1000)
    assert proxy.health.is_healthy
    proxy.health.on_queued(IPV4)
    await proxy.clock.advance(TIMEOUT_S - 1)
    proxy.health.on_queued(IPV4)
    assert proxy.health.livez().status == 200
    await proxy.clock.advance(1)
    assert not proxy.health.is_healthy
    response = proxy.health.healthz()
    body = json.loads(response.body)
    assert response.status == 503
    assert set(body) == {"lastUpdated", "currentTime", "nodeEligible"}
    assert body["lastUpdated"] < body["currentTime"]
    assert body["currentTime"].endswith(" +0000 UTC")
    proxy.health.on_synced(IPV4)
    body = json.loads(proxy.health.healthz().body)
    assert body["lastUpdated"] == body["currentTime"]


def test_healthz_fails_for_a_node_that_is_being_deleted() -> None:
    proxy = Proxy()
    node = Node(
        metadata=ObjectMeta(name=NODE), spec=NodeSpec(taints=[Taint(key=TO_BE_DELETED_TAINT, effect="NoSchedule")])
    )
    other = Node(metadata=ObjectMeta(name="other"))
    proxy.health.on_node(None, node)
    proxy.health.on_node(None, other)
    assert (proxy.health.healthz().status, proxy.health.livez().status) == (503, 200)
    assert json.loads(proxy.health.healthz().body)["nodeEligible"] is False
    assert proxy.health.is_healthy
    proxy.health.on_node(node, Node(metadata=ObjectMeta(name=NODE)))
    assert proxy.health.healthz().status == 200
    deleted = Node(metadata=ObjectMeta(name=NODE, deletionTimestamp="2026-01-01T00:00:00Z"))
    proxy.health.on_node(None, deleted)
    assert proxy.health.healthz().status == 503
    text = proxy.metrics.text()
    assert 'kubeproxy_proxy_healthz_total{code="503"} 3' in text
    assert 'kubeproxy_proxy_livez_total{code="200"} 1' in text


async def test_health_port_serves_healthz_and_livez() -> None:
    proxy, port = Proxy(), free_port()
    async with health_port(proxy.health, NetworkNamespace(), "0.0.0.0", port), ClientSession() as session:
        for path, status in (("healthz", 200), ("livez", 200), ("other", 404)):
            async with session.get(f"http://127.0.0.1:{port}/{path}") as response:
                assert response.status == status
                if status == 200:
                    assert response.headers["X-Content-Type-Options"] == "nosniff"
                    assert "lastUpdated" in await response.json()
