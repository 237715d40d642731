"""Connection tracking of the kernel, as far as kube-proxy changes it (`pkg/proxy/conntrack`): stale UDP flows, which it
deletes from the kernel's table, and the limits of that table.

The first packet of a UDP flow decides where all of its packets go, for as long as the client keeps sending. If the
endpoint of a flow is gone, or if the service had no endpoint when the flow began, the entry must be deleted, so that
the next packet is sent to an endpoint. Like the real kube-proxy, this compares entries with the serving endpoints
only: a change of traffic policies leaves existing flows alone, as it does with TCP.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import socket
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter

from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.host.netlink.conntrack import ConntrackTable, UdpFlow
from sampan.host.netlink.routing import list_addresses, open_route_socket
from sampan.network.proxy.kube_proxy_configuration import ConntrackConfiguration, seconds
from sampan.network.proxy.metrics import ProxyMetrics
from sampan.network.proxy.services import IPV4, IPV6, UDP, ServicePortState
from sampan.network.proxy.tracker import ServiceChange

_SYSCTLS = Path("/proc/sys/net/netfilter")
_HASH_SIZE = Path("/sys/module/nf_conntrack/parameters/hashsize")
_MAX_ENTRIES = 1 << 20
"""The upper limit of a computed table size, which bounds the memory that machines with many CPUs use for it."""
_MAX = "nf_conntrack_max"
log = logging.getLogger(__name__)

_ADDRESS_FAMILIES = {IPV4: socket.AF_INET, IPV6: socket.AF_INET6}

Target = tuple[str, int]
"""An address and a port. An empty address stands for all addresses of the node."""
ServingEndpoints = Mapping[Target, frozenset[Target]]
"""The endpoints that flows to a target may have."""


def conntrack_sysctls(configuration: ConntrackConfiguration, cpus: int) -> dict[str, int]:
    """Return the values of the conntrack sysctls to set, by name. Pure."""
    return dict(_values(configuration, cpus))


def _values(configuration: ConntrackConfiguration, cpus: int) -> Iterator[tuple[str, int]]:
    if configuration.maxPerCore:
        scaled = configuration.maxPerCore * cpus
        yield _MAX, _MAX_ENTRIES if scaled > _MAX_ENTRIES else max(scaled, configuration.min or 0)
    for name, duration in (
        ("nf_conntrack_tcp_timeout_established", configuration.tcpEstablishedTimeout),
        ("nf_conntrack_tcp_timeout_close_wait", configuration.tcpCloseWaitTimeout),
        ("nf_conntrack_udp_timeout", configuration.udpTimeout),
        ("nf_conntrack_udp_timeout_stream", configuration.udpStreamTimeout),
    ):
        if seconds(duration) >= 1:
            yield name, int(seconds(duration))
    if configuration.tcpBeLiberal:
        yield "nf_conntrack_tcp_be_liberal", 1


def apply_conntrack_sysctls(configuration: ConntrackConfiguration) -> None:
    """Set the conntrack sysctls in the network namespace of the calling thread. The call blocks.

    A sysctl that cannot be set is logged: services work without it. The table size belongs to the machine: namespaces
    of nodes cannot change it. It is never reduced, because other programs may rely on it.
    """
    _load_module()
    for name, value in conntrack_sysctls(configuration, os.cpu_count() or 1).items():
        file = _SYSCTLS / name
        try:
            current = int(file.read_text())
            if current == value or (name == _MAX and current > value):
                continue
            file.write_text(str(value))
        except (OSError, ValueError) as error:
            is_of_machine = name == _MAX and isinstance(error, PermissionError)
            log.log(logging.INFO if is_of_machine else logging.WARNING, "cannot set sysctl %s: %s", name, error)
            continue
        log.info("set sysctl net.netfilter.%s to %d", name, value)
        if name == _MAX:
            _grow_hash_table(value // 4)


def _load_module() -> None:
    if not _SYSCTLS.exists() and (modprobe := shutil.which("modprobe")):
        subprocess.run([modprobe, "--quiet", "nf_conntrack"], capture_output=True, check=False, timeout=30)


def _grow_hash_table(size: int) -> None:
    try:
        if int(_HASH_SIZE.read_text()) < size:
            _HASH_SIZE.write_text(str(size))
    except (OSError, ValueError) as error:
        log.warning("cannot set the size of the conntrack hash table to %d: %s", size, error)


class UdpFlowCleaner:
    """Deletes stale UDP flows after each sync that changed a UDP service. One dump of the table serves all changes."""

    def __init__(self, *, namespace: NetworkNamespace, metrics: ProxyMetrics) -> None:
        self._metrics = metrics
        self._executor: ThreadPoolExecutor = namespace.executor("conntrack")
        self._pending: dict[str, dict[Target, frozenset[Target]]] = {IPV4: {}, IPV6: {}}
        """Changed targets by IP family, kept until a pass over the table has succeeded."""

    async def __aenter__(self) -> UdpFlowCleaner:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._executor.shutdown(wait=False)

    async def on_changes(self, changes: Sequence[ServiceChange]) -> None:
        for family, targets in self._pending.items():
            states = [state for change in changes for state in change.current if state.info.family == family]
            targets.update(serving_endpoints(states))
            if targets:
                await self._clean(family, targets)

    async def _clean(self, family: str, targets: dict[Target, frozenset[Target]]) -> None:
        start, loop = perf_counter(), asyncio.get_running_loop()
        try:
            deleted = await loop.run_in_executor(self._executor, _delete_stale, family, dict(targets))
        except OSError as error:
            log.warning("cannot delete stale conntrack entries of UDP services: %s; retrying with the next sync", error)
            return
        targets.clear()
        self._metrics.on_conntrack_synced(family, start=start, deleted=deleted)
        if deleted:
            log.info("deleted %d stale conntrack entries of UDP services (%s)", deleted, family)


def serving_endpoints(states: Iterable[ServicePortState]) -> dict[Target, frozenset[Target]]:
    """Return the serving endpoints of UDP service ports by the addresses at which clients reach the service."""
    targets: dict[Target, frozenset[Target]] = {}
    for state in states:
        info = state.info
        if info.protocol != UDP:
            continue
        endpoints = frozenset((endpoint.address, endpoint.port) for endpoint in state.endpoints if endpoint.is_serving)
        for address in (info.cluster_ip, *info.external_ips, *info.load_balancer_ips):
            targets[address, info.port] = endpoints
        if info.node_port:
            targets["", info.node_port] = endpoints
    return targets


def stale_flows(
    flows: Iterable[UdpFlow], targets: ServingEndpoints, node_addresses: frozenset[str]
) -> Iterator[UdpFlow]:
    """Yield the flows to a target that no serving endpoint replies to."""
    for flow in flows:
        endpoints = targets.get((flow.destination, flow.destination_port))
        if endpoints is None and flow.destination in node_addresses:
            endpoints = targets.get(("", flow.destination_port))
        if endpoints is not None and (flow.reply_source, flow.reply_source_port) not in endpoints:
            yield flow


def _delete_stale(family: str, targets: ServingEndpoints) -> int:
    table = ConntrackTable(_ADDRESS_FAMILIES[family])
    addresses = node_addresses(_ADDRESS_FAMILIES[family]) if any(not address for address, _ in targets) else frozenset()
    return table.delete(list(stale_flows(table.udp_flows(), targets, addresses)))


def node_addresses(family: socket.AddressFamily) -> frozenset[str]:
    """Return the addresses of the current network namespace, except for loopback, where node ports are sockets."""
    with open_route_socket() as netlink:
        addresses = (info.interface.ip for info in list_addresses(netlink, family))
        return frozenset(str(address) for address in addresses if not address.is_loopback)
