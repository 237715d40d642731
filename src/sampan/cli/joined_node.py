"""The process of a node that joined the cluster of another machine: kubelet, service proxy, DNS server, network
policies and pod network, in the network namespace of this machine."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING

from sampan import __version__
from sampan.api.addresses import join_host_port
from sampan.cli.components.component_port import tls_of
from sampan.cli.components.kubelet_access import KubeletIdentity, keep_client_certificate, keep_serving_certificate
from sampan.cli.local_cluster.cluster_dir import ClusterDir, RunningCluster
from sampan.cli.local_cluster.server_process import on_signals
from sampan.cluster.cluster_cidrs import choose_pod_cidr
from sampan.cluster.cluster_config import KUBELET, PROXY
from sampan.cluster.join.discovery import JoinError, parse_server
from sampan.cluster.join.preflight import read_link
from sampan.cluster.join.record import JoinRecord
from sampan.cluster.machine.host_locks import HostLocks
from sampan.cluster.nodes.abandoned_node import root_cgroup_of
from sampan.host.activity import Activity
from sampan.host.clock import RealClock
from sampan.kubelet.agent.certificate_manager import CertificateStore
from sampan.kubelet.agent.config import IMAGE_GC_OFF, LOCAL_HARD_EVICTION, AgentConfig
from sampan.kubelet.agent.machine import find_machine_addresses
from sampan.kubelet.server.ports import PortsConfig
from sampan.machinery.client import Client
from sampan.machinery.client.access import Access
from sampan.machinery.client.http import HttpTransport
from sampan.machinery.pki.certificates import KeyPair
from sampan.network.mesh.config import MeshConfig
from sampan.runtimes.names import CRI, DOCKER, OCI

if TYPE_CHECKING:
    from sampan.cluster.nodes.node_proxies import NodeProxies
    from sampan.kubelet.agent.kubelet import Kubelet
    from sampan.machinery.informer import InformerFactory

log = logging.getLogger(__name__)

COMPONENTS = (KUBELET, PROXY)
CLIENT_CERTIFICATE = "kubelet-client"
_DNS_HOST = 10
"""The position of the cluster DNS address in the service CIDR."""
_ADDRESS_CHECK_S = 10.0
_POD_NETWORK_RUNTIMES = (OCI, DOCKER, CRI)
"""Runtimes that give each pod an IP address."""


@dataclass(frozen=True, slots=True)
class JoinedNodeFiles:
    """The paths of the files of a joined node, below its data directory."""

    where: ClusterDir

    @property
    def ca(self) -> Path:
        return self.where.pki / "ca.crt"

    @property
    def wireguard_key(self) -> Path:
        return self.where.pki / "wireguard.key"

    @property
    def nodes(self) -> Path:
        return self.where.path / "nodes"

    def directory(self, node: str) -> Path:
        return self.nodes / node

    def client_pair(self) -> KeyPair | None:
        return CertificateStore(self.where.pki, CLIENT_CERTIFICATE).read()

    def access(self, record: JoinRecord) -> Access:
        """Return the address and the credentials with which the node reaches the API server. Raise JoinError if the
        node has no client certificate."""
        pair = self.client_pair()
        if pair is None:
            raise JoinError(f"{self.where.pki} has no client certificate; join again with a new token")
        return Access(
            server=record.server,
            ca_pem=self.ca.read_bytes(),
            client_cert_pem=pair.certificate,
            client_key_pem=pair.key,
        )


def node_addresses(record: JoinRecord) -> list[str]:
    """Return the IP addresses of the node: the source address of its route to the API server, and one of the other IP
    family. `node_ip` of the record replaces both."""
    if record.node_ip:
        return record.node_ip.split(",")
    primary = read_link(parse_server(record.server)).address
    others = [address for address in find_machine_addresses() if (":" in address) != (":" in primary)]
    return [primary, *(address for address in others if not address.startswith(("127.", "fe80:")))]


def cluster_dns(service_cidrs: Sequence[str]) -> list[str]:
    """Return the address of the cluster DNS in the first service CIDR; an empty list without a service CIDR."""
    return [str(ip_network(service_cidrs[0])[_DNS_HOST])] if service_cidrs else []


class JoinedNode:
    """Runs a node that joined a cluster until it is cancelled. If the address of the machine changes, the components of
    the node are restarted with the new address, and its containers keep running."""

    def __init__(
        self, *, directory: ClusterDir, name: str, record: JoinRecord, on_ready: Callable[[RunningCluster], None]
    ) -> None:
        self._where, self._name, self._record, self._on_ready = directory, name, record, on_ready
        self._files, self._clock, self._locks = JoinedNodeFiles(directory), RealClock(), HostLocks()
        self._began = time.time()

    async def run(self) -> None:
        """Run until SIGINT or SIGTERM. Pods keep running afterwards."""
        stop = asyncio.Event()
        on_signals(asyncio.get_running_loop(), stop.set)
        while not stop.is_set():
            addresses = await self._addresses(stop)
            if addresses is not None:
                await self._run_with(addresses, stop)

    async def remove_network(self) -> None:
        """Remove the routes, tunnels and rules of the node from this machine. The node must have stopped."""
        from sampan.cluster.nodes.node_network import remove_host_rules
        from sampan.network.mesh.agent import remove_mesh

        await asyncio.to_thread(remove_mesh, self._mesh_config(()))
        await asyncio.to_thread(remove_host_rules, self._files.directory(self._record.node))

    async def _addresses(self, stop: asyncio.Event) -> list[str] | None:
        """Return the addresses of the node. After a boot, wait until the machine has an address. Return None if `stop`
        is set first."""
        while not stop.is_set():
            try:
                return await asyncio.to_thread(node_addresses, self._record)
            except JoinError as error:
                log.warning("cannot find the addresses of this node: %s; retrying in %g s", error, _ADDRESS_CHECK_S)
            await _wait(stop, _ADDRESS_CHECK_S)
        return None

    async def _run_with(self, addresses: list[str], stop: asyncio.Event) -> None:
        async with AsyncExitStack() as stack:
            group = await stack.enter_async_context(asyncio.TaskGroup())
            task = group.create_task(self._run_components(addresses))
            while not await _wait(stop, _ADDRESS_CHECK_S):
                try:
                    present = await asyncio.to_thread(node_addresses, self._record)
                except JoinError:  # the network is down: keep the old address until the machine has a new one
                    continue
                if present != addresses:
                    log.warning("restarting node components: addresses changed from %s to %s", addresses, present)
                    break
            task.cancel()

    async def _run_components(self, addresses: list[str]) -> None:
        from sampan.cluster.nodes.node_network import NodeNetworks, can_enforce_policies
        from sampan.cluster.nodes.node_runtime import RuntimeConfig, runtime_maker
        from sampan.host.linux.network_namespace import NetworkNamespace
        from sampan.kubelet.agent.kubelet import build_kubelet
        from sampan.kubelet.server.ports import serve_kubelet
        from sampan.network.dns.config import ClusterDnsConfig, ZoneConfig
        from sampan.network.mesh.agent import MeshAgent, pod_mtu
        from sampan.network.nodes import NodeAttachment

        record, clock, directory = self._record, self._clock, self._files.directory(self._record.node)
        access, ports = self._files.access(record), self._ports()
        identity = self._identity(access)
        mesh_config = self._mesh_config(addresses)
        places = RuntimeConfig(
            node=record.node,
            directory=directory,
            images=self._where.images,
            endpoint=record.endpoint,
            cluster_cidrs=record.pod_cidrs,
            mtu=await asyncio.to_thread(pod_mtu, mesh_config),
        )
        async with HttpTransport(access) as transport:

            def client_for(component: str) -> Client:
                return Client(transport=transport, clock=clock, component=component.removeprefix("system:"))

            networks = NodeNetworks(
                components=COMPONENTS,
                client_for=client_for,
                clock=clock,
                activity=Activity(),
                has_policies=can_enforce_policies(record.runtime),
                make_proxies=self._make_proxies,
                dns=ClusterDnsConfig(zone=ZoneConfig(domain=record.dns_domain), is_announced=True),
            )
            attachment = NodeAttachment(
                node=record.node, directory=directory, namespace=NetworkNamespace(), addresses=addresses
            )
            network = networks.network_of(attachment)
            mesh = MeshAgent(config=mesh_config, client=client_for("sampan-mesh"), clock=clock)
            async with (
                networks,
                network.running(),
                build_kubelet(
                    config=self._agent_config(addresses),
                    client=client_for(KUBELET),
                    clock=clock,
                    make_runtime=runtime_maker(record.runtime, replace(places, isolation=network.isolation), clock),
                ) as kubelet,
                asyncio.TaskGroup() as group,
            ):
                for work in (
                    keep_client_certificate(identity, kubelet, transport),
                    keep_serving_certificate(identity, kubelet, ports.tls),
                    serve_kubelet(kubelet, ports),
                    mesh.run(),
                    self._announce(kubelet, addresses),
                    kubelet.run(),
                ):
                    group.create_task(work)

    def _make_proxies(self, client: Client, informers: InformerFactory) -> NodeProxies:
        from sampan.cluster.nodes.node_proxies import NodeProxies
        from sampan.host.linux.network_namespace import NetworkNamespace

        return NodeProxies(
            machine=NetworkNamespace(),
            client=client,
            informers=informers,
            clock=self._clock,
            cluster_cidrs=self._record.pod_cidrs,
            locks=self._locks,
        )

    async def _announce(self, kubelet: Kubelet, addresses: Sequence[str]) -> None:
        await kubelet.ready.wait()
        record = self._record
        self._on_ready(
            RunningCluster(
                pid=os.getpid(),
                name=self._name,
                url=record.server,
                listening=[join_host_port(addresses[0], record.port)],
                components=list(COMPONENTS),
                started=self._began,
                nodes=f"{record.node} ({kubelet.runtime.name})",
                version=__version__,
            )
        )

    def _identity(self, access: Access) -> KubeletIdentity:
        return KubeletIdentity(
            access=access,
            directory=self._where.pki,
            present=KeyPair(access.client_cert_pem, access.client_key_pem),
            rotates=True,
            serving_by_name=True,
        )

    def _ports(self) -> PortsConfig:
        context = tls_of(None, None, name=self._record.node)
        context.load_verify_locations(cadata=self._files.ca.read_text())
        context.verify_mode = ssl.CERT_OPTIONAL
        return PortsConfig(tls=context, port=self._record.port)

    def _agent_config(self, addresses: Sequence[str]) -> AgentConfig:
        record = self._record
        directory = self._files.directory(record.node)
        is_ours = record.runtime in _POD_NETWORK_RUNTIMES
        return AgentConfig(
            name=record.node,
            root=directory / "kubelet",
            logs=directory / "logs",
            labels=record.labels,
            node_ips=addresses,
            port=record.port,
            cgroup_root=root_cgroup_of(self._files.nodes, record.node),
            has_cgroups_per_qos=os.geteuid() == 0,
            eviction_hard=LOCAL_HARD_EVICTION,
            image_gc_high=IMAGE_GC_OFF,
            images=self._where.images if record.runtime == OCI else None,
            cluster_dns=cluster_dns(record.service_cidrs),
            cluster_domain=record.dns_domain,
            needs_pod_cidr=is_ours,
            own_pod_cidrs=[choose_pod_cidr(record.node)] if is_ours and not record.pod_cidrs else (),
            serializes_pulls=False,
        )

    def _mesh_config(self, addresses: Sequence[str]) -> MeshConfig:
        record = self._record
        return MeshConfig(
            is_own=lambda node: node.metadata.name == record.node,
            identity=str(self._where.path),
            cluster=self._files.ca.read_bytes(),
            addresses=addresses,
            cluster_cidrs=[ip_network(cidr) for cidr in record.pod_cidrs],
            backend=record.pod_network,
            server=parse_server(record.server).host,
            key_file=self._files.wireguard_key,
        )


async def _wait(event: asyncio.Event, timeout_s: float) -> bool:
    """Wait until the event is set. Return False if the timeout passes first."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return False
    return True
