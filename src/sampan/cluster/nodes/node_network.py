"""The components that run beside the kubelet of each real node: service proxy, DNS server, network policies, Ingress
server.

`NodeNetworks` is shared by the real nodes of the process. Each component that reads the API has a user of its own and
one InformerFactory, which all nodes share. `NodeNetwork._workers` connects each component.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from sampan.api.types.core_v1 import Namespace, Pod
from sampan.api.types.networking_v1 import NetworkPolicy
from sampan.cluster.component_roles import DNS_USER, INGRESS_USER, POLICY_USER
from sampan.cluster.nodes.node_proxies import NodeProxies
from sampan.host.activity import Activity
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client
from sampan.machinery.client.transport import ConnectionFailed
from sampan.machinery.control_loop.supervision import Supervision, Supervisor
from sampan.machinery.informer import InformerFactory
from sampan.machinery.telemetry.flight_recorder import FlightRecorder
from sampan.network.dns.config import ClusterDnsConfig
from sampan.network.nft import nft_program, run_nft
from sampan.network.nodes import NodeAttachment
from sampan.network.pods import bridge_for, unsupported_reason
from sampan.network.policy import NetworkPolicyAgent, PolicyConfig
from sampan.network.proxy import remove_tables
from sampan.runtimes.names import CRI, DOCKER, OCI
from sampan.runtimes.network import NoIsolation, PodIsolation

if TYPE_CHECKING:
    from sampan.network.dns.cluster_dns import ClusterDns, NodeDns
    from sampan.network.ingress.controller import IngressController
    from sampan.network.ingress.node_server import NodeIngress
    from sampan.network.ingress.publication import IngressConfig

log = logging.getLogger(__name__)

PROXY_USER = "system:kube-proxy"
_PROXY, _POLICY, _DNS, _INGRESS = "kube-proxy", "network-policy", "kube-dns", "ingress"
_USERS = {PROXY_USER: _PROXY, POLICY_USER: _POLICY, DNS_USER: _DNS, INGRESS_USER: _INGRESS}
"""The components by their users, which need roles (`component_roles`)."""
POLICY_TABLE = "sampan-netpol"
_PERMISSION_CHECK_S = 5.0

Worker = Callable[[], Awaitable[None]]


class NodeNetworks:
    """The networks of the real nodes of this process. `async with` runs the informers that they share."""

    def __init__(
        self,
        *,
        components: Sequence[str],
        client_for: Callable[[str], Client],
        clock: Clock,
        activity: Activity,
        has_policies: bool = False,
        stops_pods: bool = False,
        make_proxies: Callable[[Client, InformerFactory], NodeProxies] | None = None,
        dns: ClusterDnsConfig | None = None,
        ingress: IngressConfig | None = None,
        recorder: FlightRecorder | None = None,
        supervision: Supervision | None = None,
    ) -> None:
        """`client_for` returns a client with the permissions of a user. `components` are the components of the cluster.
        `has_policies` says whether the nodes enforce network policies. `stops_pods` says whether pods stop with their
        node; if so, policies need not stay in effect. Without `make_proxies` the nodes have no service proxies, without
        `dns` no DNS servers, without `ingress` no Ingress servers. Failed components are restarted, by default without
        a report to anybody."""
        self._supervision = supervision or Supervisor(clock=clock)
        self._components, self._clock, self._stops_pods = components, clock, stops_pods
        self._policy_client = client_for(POLICY_USER) if has_policies else None
        clients = {user: client_for(user) for user in _USERS}
        self._informers = {
            user: InformerFactory(
                client=clients[user],
                activity=activity,
                supervision=self._supervision.narrow_to(component),
            )
            for user, component in _USERS.items()
        }
        user = PROXY_USER
        self._proxies = make_proxies(clients[user], self._informers[user]) if make_proxies is not None else None
        self._dns: ClusterDns | None = None
        if dns is not None:
            from sampan.network.dns.cluster_dns import ClusterDns

            self._dns = ClusterDns(
                config=dns,
                client=client_for(DNS_USER),
                informers=self._informers[DNS_USER],
                clock=clock,
                recorder=recorder,
            )
        self._ingress: IngressController | None = None
        if ingress is not None:
            from sampan.network.ingress.controller import IngressController

            self._ingress = IngressController(
                config=ingress, client=client_for(INGRESS_USER), informers=self._informers[INGRESS_USER], clock=clock
            )
        self._running = AsyncExitStack()

    async def __aenter__(self) -> NodeNetworks:
        for informers in self._informers.values():
            await self._running.enter_async_context(informers)
        if self._proxies is not None:
            await self._running.enter_async_context(self._proxies)
        if self._dns is not None:
            await self._running.enter_async_context(self._dns)
        if self._ingress is not None:
            await self._running.enter_async_context(self._ingress)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._running.aclose()

    async def ready(self) -> None:
        """Wait until the DNS and Ingress servers of the running nodes accept connections."""
        for server in self._servers():
            await server.listening.wait()

    @property
    def listen_addresses(self) -> list[tuple[str, int]]:
        """The addresses and ports on which components of the nodes accept connections."""
        of_proxies = self._proxies.listen_addresses if self._proxies is not None else []
        return [*of_proxies, *(address for server in self._servers() for address in server.listen_addresses)]

    def _servers(self) -> list[NodeDns | NodeIngress]:
        return [
            *(self._dns.servers.values() if self._dns is not None else ()),
            *(self._ingress.servers.values() if self._ingress is not None else ()),
        ]

    def network_of(self, attachment: NodeAttachment) -> NodeNetwork:
        return NodeNetwork(
            attachment=attachment,
            components=self._components,
            informers=MappingProxyType(self._informers),
            supervision=self._supervision,
            policies=self._policies_of(attachment),
            stops_pods=self._stops_pods,
            proxies=self._proxies,
            dns=self._dns,
            ingress=self._ingress,
        )

    def _policies_of(self, attachment: NodeAttachment) -> NetworkPolicyAgent | None:
        if self._policy_client is None:
            return None
        return network_policies(
            attachment,
            bridge_for(str(attachment.directory)),
            self._policy_client,
            self._informers[POLICY_USER],
            self._clock,
        )


class NodeNetwork:
    """The network of one node. It exists before the kubelet of the node, and ends after the node's pods have
    terminated."""

    def __init__(
        self,
        *,
        attachment: NodeAttachment,
        components: Sequence[str],
        informers: Mapping[str, InformerFactory],
        supervision: Supervision,
        policies: NetworkPolicyAgent | None = None,
        stops_pods: bool = False,
        proxies: NodeProxies | None = None,
        dns: ClusterDns | None = None,
        ingress: IngressController | None = None,
    ) -> None:
        self.attachment, self._policies, self._proxies = attachment, policies, proxies
        self._dns, self._ingress, self._stops_pods = dns, ingress, stops_pods
        self._components, self._informers, self._supervision = components, informers, supervision

    @property
    def isolation(self) -> PodIsolation:
        """The object that puts network policies into effect before a pod of the node is connected."""
        return self._policies if self._policies is not None else NoIsolation()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the components of the node for the duration of the block."""
        async with AsyncExitStack() as stack:
            if self._policies is not None:
                stack.callback(self._policies.close)
                if self._stops_pods:
                    stack.push_async_callback(self._policies.remove_all)
            group = await stack.enter_async_context(asyncio.TaskGroup())
            node, supervision = self.attachment.node, self._supervision
            tasks = [
                group.create_task(supervision.narrow_to(name).run(node, worker))
                for name, worker in self._workers().items()
            ]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    def _workers(self) -> dict[str, Worker]:
        """Return the coroutine functions of the components of the node by name. Each runs until it is cancelled."""
        workers: dict[str, Worker] = {}
        if self._policies is not None:
            workers[_POLICY] = self._policies.run
        if self._proxies is not None:
            workers[_PROXY] = partial(self._proxies.run, self.attachment)
        if self._dns is not None:
            workers[_DNS] = self._dns.server_of(
                node=self.attachment.node,
                namespace=self.attachment.namespace,
                addresses=self.attachment.addresses,
            ).run
        if self._ingress is not None:
            workers[_INGRESS] = self._ingress.server_of(
                node=self.attachment.node,
                namespace=self.attachment.namespace,
                addresses=self.attachment.addresses,
            ).run
        return workers


def remove_host_rules(directory: Path) -> None:
    """Remove the network policy and service rules of a node that worked in the network namespace of this process.
    `directory` is the directory of the node."""
    remove_host_policies(directory)
    if nft_program() is not None:
        remove_tables()


def remove_host_policies(directory: Path) -> None:
    """Remove the rules of network policies of a node that worked in the network namespace of this process."""
    if nft_program() is not None and os.geteuid() == 0:
        table = f"{POLICY_TABLE}-{bridge_for(str(directory))}"
        run_nft("-f", "-", text=f"add table inet {table}\ndelete table inet {table}\n")


def can_enforce_policies(runtime: str) -> bool:
    """Whether nodes with this runtime can enforce network policies, for which their pods need addresses
    of their own."""
    return runtime in (CRI, DOCKER, OCI) and not unsupported_reason()


async def check_policy_access(client: Client) -> bool:
    """Whether a client has the permissions that the enforcement of network policies needs."""
    try:
        async with asyncio.timeout(_PERMISSION_CHECK_S):
            for kind in (NetworkPolicy, Namespace, Pod):
                await client.for_kind(kind).list(limit=1)
    except errors.Forbidden as error:
        log.warning("network policies are not enforced: %s", error)
        return False
    except (errors.ApiError, ConnectionFailed, TimeoutError) as error:
        log.warning("cannot check the permission to read network policies: %s", error)
    return True


def network_policies(
    attachment: NodeAttachment, bridge: str, client: Client, informers: InformerFactory, clock: Clock
) -> NetworkPolicyAgent:
    """Return the agent that enforces network policies on a node. Each node in a shared network namespace has a table of
    its own."""
    config = PolicyConfig(
        node=attachment.node,
        table=POLICY_TABLE if attachment.namespace.path is not None else f"{POLICY_TABLE}-{bridge}",
        bridge=bridge,
        node_addresses=attachment.host_addresses,
    )
    return NetworkPolicyAgent(
        config=config, namespace=attachment.namespace, client=client, informers=informers, clock=clock
    )
