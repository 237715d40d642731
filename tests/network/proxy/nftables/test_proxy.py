"""The proxy of a node with an API server: from objects to rules in the kernel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from sampan.api.types.core_v1 import Node, NodeAddress, NodeSpec, NodeStatus, Service, ServicePort, ServiceSpec
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.apiserver.request.call import AUTHENTICATED, UserInfo
from sampan.host.linux.network_namespace import NetworkNamespace, run_in_network
from sampan.machinery.client import Client
from sampan.machinery.informer import InformerFactory
from sampan.machinery.telemetry.metrics import Metrics
from sampan.network.nft import run_nft
from sampan.network.proxy.health import ProxyHealth
from sampan.network.proxy.metrics import ProxyMetrics
from sampan.network.proxy.nftables.proxy import REFUSED_REASON, NftablesProxy
from sampan.network.proxy.nftables.proxy_table import ProxyTable
from sampan.network.proxy.nftables.table_state import ServiceStates
from sampan.network.proxy.proxy_config import ProxyConfig
from sampan.network.proxy.tracker import ServiceChange
from tests.controllers.cluster import Cluster, cluster
from tests.eventually import eventually
from tests.network.pods.lab import NODE_IP, NODE_IP6, Lab, needs_network
from tests.network.proxy.events import RecordedEvents
from tests.network.proxy.objects import NODE, endpoint, endpoint_slice

pytestmark = needs_network


@dataclass
class RecordedChanges:
    """An observer that keeps the names of changed services."""

    names: list[str] = field(default_factory=list)

    async def on_changes(self, changes: Sequence[ServiceChange]) -> None:
        self.names += [change.service.name for change in changes]


@dataclass
class RunningProxy:
    lab: Lab
    cluster: Cluster
    proxy: NftablesProxy
    changes: RecordedChanges
    events: RecordedEvents
    metrics: Metrics

    async def rules(self) -> str:
        return (await asyncio.to_thread(run_in_network, self.lab.node, lambda: run_nft("list", "ruleset"))).decode()

    async def nft(self, text: str) -> None:
        await asyncio.to_thread(run_in_network, self.lab.node, lambda: run_nft("-f", "-", text=f"{text}\n"))

    async def rules_with(self, *texts: str) -> None:
        """Wait until the rules have all of these texts."""

        async def has_all() -> bool:
            rules = await self.rules()
            return all(text in rules for text in texts)

        await eventually(has_all, step=lambda: self.cluster.clock.advance(0.5), timeout_s=30)

    async def rules_without(self, text: str) -> None:
        async def lacks() -> bool:
            return text not in await self.rules()

        await eventually(lacks, step=lambda: self.cluster.clock.advance(0.5), timeout_s=30)

    async def serve(self, name: str, *addresses: str) -> Service:
        client = self.cluster.client
        slice = endpoint_slice(name, *(endpoint(address, node=NODE) for address in addresses))
        await client.for_kind(EndpointSlice).create(slice)
        return await client.for_kind(Service).create(
            Service(
                metadata=ObjectMeta(name=name, namespace="default"),
                spec=ServiceSpec(ports=[ServicePort(port=80, protocol="TCP")]),
            )
        )


@asynccontextmanager
async def running_proxy(lab: Lab, config: ProxyConfig | None = None) -> AsyncIterator[RunningProxy]:
    config = config or ProxyConfig(cluster_cidrs=["10.77.0.0/16"], min_sync_period_s=0.1)
    async with cluster() as api:
        addresses = [NodeAddress(type="InternalIP", address=ip) for ip in (NODE_IP, NODE_IP6)]
        node = Node(metadata=ObjectMeta(name=NODE), spec=NodeSpec(podCIDRs=["10.77.0.0/24"], podCIDR="10.77.0.0/24"))
        node = await api.client.for_kind(Node).create(node)
        node.status = NodeStatus(addresses=addresses)
        await api.client.for_kind(Node).update_status(node)
        user = UserInfo("system:kube-proxy", groups=(AUTHENTICATED,))
        client = Client(transport=api.transport.as_user(user), clock=api.clock, component="kube-proxy")
        changes, events, metrics = RecordedChanges(), RecordedEvents(), Metrics()
        proxy_metrics = ProxyMetrics(metrics, clock=api.clock)
        async with InformerFactory(client=client) as informers, asyncio.TaskGroup() as group:
            proxy = NftablesProxy(
                node_name=NODE,
                namespace=NetworkNamespace(lab.node),
                informers=informers,
                nodes=informers.for_kind(Node),
                clock=api.clock,
                config=config,
                metrics=proxy_metrics,
                health=ProxyHealth(node_name=NODE, clock=api.clock, timeout_s=60, metrics=proxy_metrics),
                events=events,
                observers=[changes],
            )
            task = group.create_task(proxy.run())
            await proxy.synced.wait()
            yield RunningProxy(lab, api, proxy, changes, events, metrics)
            task.cancel()


async def test_services_become_rules(lab: Lab) -> None:
    async with running_proxy(lab) as running:
        assert f"elements = {{ {NODE_IP} }}" in await running.rules()
        web = await running.serve("web", "10.77.0.5")
        element = f"{web.spec.clusterIP} . tcp . 80 : goto service-"
        await running.rules_with(element, "dnat to 10.77.0.5:8080", "table ip6 kube-proxy")
        await eventually(lambda: "web" in running.changes.names)  # observers are called after the rules are written
        slice = await running.cluster.client.for_kind(EndpointSlice).get("web-1", "default")
        slice.endpoints = [endpoint("10.77.0.6", node=NODE)]
        await running.cluster.client.for_kind(EndpointSlice).update(slice)
        await running.rules_with("dnat to 10.77.0.6:8080")
        await running.cluster.client.for_kind(Service).delete("web", "default")
        await running.rules_without(element)
        await running.rules_without("default/web")  # the chains are deleted a little later
        text = running.metrics.text()
        assert 'kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family="IPv4"} 1' in text
        assert 'kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family="IPv4"} 0' in text
    assert "table ip kube-proxy" in await running.rules()  # a restart interrupts nothing


@pytest.mark.parametrize(
    "damage", ["flush ruleset", "flush chain ip kube-proxy services", "delete table ip6 kube-proxy"]
)
async def test_rules_deleted_by_other_programs_are_restored(lab: Lab, damage: str) -> None:
    async with running_proxy(lab) as running:
        web = await running.serve("web", "10.77.0.5")
        expected = (f"{web.spec.clusterIP} . tcp . 80 : goto", "@service-ips", "table ip6 kube-proxy")
        await running.rules_with(*expected)
        await running.nft(damage)
        await running.rules_with(*expected, "ip daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports")


async def test_audit_restores_deleted_map_elements(lab: Lab) -> None:
    config = ProxyConfig(cluster_cidrs=["10.77.0.0/16"], audit_period_s=60)
    async with running_proxy(lab, config) as running:
        web = await running.serve("web", "10.77.0.5")
        element = f"{web.spec.clusterIP} . tcp . 80 : goto"
        await running.rules_with(element)
        await running.nft("flush map ip kube-proxy service-ips")
        await running.cluster.clock.advance(60)
        await running.rules_with(element)


async def test_rejected_service_gets_an_event_and_is_retried(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    original, is_rejected = ProxyTable.apply, [True]

    def apply(self: ProxyTable, states: ServiceStates) -> dict[object, str]:
        rejected = [service for service in states if service.name == "broken" and is_rejected[0]]
        accepted = {service: ports for service, ports in states.items() if service not in rejected}
        return original(self, accepted) | dict.fromkeys(rejected, "No such file or directory")  # type: ignore[return-value]

    monkeypatch.setattr(ProxyTable, "apply", apply)
    async with running_proxy(lab) as running:
        await running.serve("broken", "10.77.0.5")
        await running.serve("web", "10.77.0.6")
        await running.rules_with("10.77.0.6:8080")
        await eventually(lambda: len(running.events.events) == 2, step=lambda: running.cluster.clock.advance(0.5))
        assert {(reason, name) for _, reason, name, _ in running.events.events} == {(REFUSED_REASON, "default/broken")}
        assert "10.77.0.5" not in await running.rules()
        is_rejected[0] = False
        await running.cluster.clock.advance(31)
        await running.rules_with("10.77.0.5:8080")
        assert len(running.events.events) == 2


async def test_rules_follow_address_changes_of_the_node(lab: Lab) -> None:
    config = ProxyConfig(detect_local_mode="NodeCIDR", min_sync_period_s=0.1)
    async with running_proxy(lab, config) as running:
        await running.rules_with("ip saddr != 10.77.0.0/24")
        nodes = running.cluster.client.for_kind(Node)
        node = await nodes.get(NODE)
        node.status.addresses = [NodeAddress(type="InternalIP", address="192.0.2.77")]
        await nodes.update_status(node)
        await running.rules_with("elements = { 192.0.2.77 }")


async def test_node_port_addresses_select_interface_addresses(lab: Lab) -> None:
    config = ProxyConfig(node_port_addresses=["192.0.2.0/24", "2001:db8::/64"], min_sync_period_s=0.1)
    async with running_proxy(lab, config) as running:
        await running.rules_with(f"elements = {{ {NODE_IP} }}", f"elements = {{ {NODE_IP6} }}")


async def test_proxy_with_removes_rules_deletes_its_tables_when_it_stops(lab: Lab) -> None:
    async with running_proxy(lab, ProxyConfig(removes_rules=True)) as running:
        assert "table ip kube-proxy" in await running.rules()
    assert await running.rules() == ""
