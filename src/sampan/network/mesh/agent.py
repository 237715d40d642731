"""The agent of a machine in the mesh, which publishes the addresses of the machine and sets up routes to other
machines.

It follows the nodes of other machines, and decides which of their destinations are routed to them.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from typing import TypeVar

from sampan.api.addresses import Network
from sampan.api.semantics.nodes import pod_cidrs
from sampan.api.types.core_v1 import Node
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed, PatchType
from sampan.machinery.hollow import is_hollow_node
from sampan.machinery.informer import InformerFactory
from sampan.machinery.pki.private_files import write_private
from sampan.network.disjoint_networks import DisjointNetworks, is_within
from sampan.network.mesh.config import (
    NONE,
    WIREGUARD,
    MeshConfig,
    expected_backend,
    is_in_subnet_of,
    resolve,
    tunnel_mtu,
    usable_backends,
)
from sampan.network.mesh.links import MeshError, MeshLinks, has_leftovers
from sampan.network.mesh.mesh_plan import MeshMachine, MeshPlan, annotations_of, plan_mesh, read_machines

log = logging.getLogger(__name__)

T = TypeVar("T")

_CHECK_S = 15.0
"""Seconds between two comparisons of the machine with the plan while no node changes, as other programs may remove
routes."""
_SETTLE_S = 0.05
_PERSISTENT_S = 10.0
"""Seconds for which nodes are unreachable before a warning is logged."""
_KEY_LENGTH = 32


def accept_destinations(
    own: MeshMachine, others: Sequence[MeshMachine], cluster_cidrs: Sequence[Network]
) -> Iterator[MeshMachine]:
    """Yield the other machines, each with only those of its destinations that are routed to it.

    A destination that belongs to this machine, or to a machine earlier in `others`, is not routed to another machine.
    Pod CIDRs must be in the cluster CIDRs, if there are any, and addresses of nodes must be private ones.
    """
    attached = (interface.network for interface in own.interfaces)
    reserved = DisjointNetworks([*own.destinations, *attached])
    for other in others:
        for interface in other.interfaces:
            reserved.add(ip_network(interface.ip))
        destinations = [
            item for item in other.destinations if _is_plausible(item, cluster_cidrs) and reserved.add(item)
        ]
        yield replace(other, destinations=destinations)


def _is_plausible(destination: Network, cluster_cidrs: Sequence[Network]) -> bool:
    is_node_address = destination.prefixlen == destination.max_prefixlen
    return destination.is_private if is_node_address else is_within(destination, cluster_cidrs)


class MeshAgent:
    """The agent of this machine. `run()` keeps routes and tunnels to the nodes of other machines up to date until
    cancelled.

    The routes and tunnels stay after that, like the pods that use them. `remove_mesh` removes them.
    """

    def __init__(self, *, config: MeshConfig, client: Client, clock: Clock) -> None:
        self._config, self._client, self._clock = config, client, clock
        self._informers = InformerFactory(client=client)
        self._nodes = self._informers.for_kind(Node)
        self._changed = asyncio.Event()
        self._thread = config.namespace.executor("mesh")
        self._links: MeshLinks | None = None
        self._private_key = ""
        self._unreachable: Mapping[str, str] = {}
        self._unreachable_since = 0.0
        self._is_warned = False

    async def run(self) -> None:
        if self._config.backend == NONE:
            return
        try:
            async with self._informers:
                await self._nodes.synced.wait()
                self._nodes.subscribe(self._on_node)
                while True:
                    await self._clock.sleep(_SETTLE_S)
                    self._changed.clear()
                    await self._sync()
                    await self._wait()
        finally:
            self._thread.shutdown(wait=False)

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        if old is None or new is None or _relevant_fields(old) != _relevant_fields(new):
            self._changed.set()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(_CHECK_S):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _sync(self) -> None:
        try:
            await self._reach_others()
        except Exception:  # Whatever the nodes of other machines have published, this machine keeps running.
            log.exception("cannot set up the network between machines; retrying in %g s", _CHECK_S)

    async def _reach_others(self) -> None:
        nodes = [node for node in self._nodes.lister if not is_hollow_node(node)]
        others = read_machines(nodes, self._config.is_own)
        if not others and not await self._run_in_thread(lambda: has_leftovers(self._config.identity)):
            return
        own_nodes = [node for node in nodes if self._config.is_own(node)]
        own = await self._run_in_thread(lambda: self._describe_own_machine(own_nodes))
        if own is None:
            log.warning("this machine has none of the addresses %s; waiting", ", ".join(self._config.addresses))
            return
        if others:
            await self._publish(own, own_nodes)
        others = list(accept_destinations(own, others, self._config.cluster_cidrs))
        plan = plan_mesh(own, others, wireguard_port=self._config.wireguard_port)
        try:
            await self._run_in_thread(lambda: self._open_links().apply(plan, own.interfaces[0], self._private_key))
        except MeshError as error:
            log.warning("sync of the mesh failed: %s; retrying", error)
        self._warn(plan)

    def _describe_own_machine(self, nodes: list[Node]) -> MeshMachine | None:
        config = self._config
        offered = usable_backends(config.backend)
        if WIREGUARD in offered and not self._private_key:
            self._private_key = ensure_private_key(config.key_file)
        interfaces = self._open_links().interfaces(config.addresses)
        if not interfaces:
            return None
        key = public_key(self._private_key) if self._private_key else ""
        return MeshMachine(
            nodes=[node.metadata.name for node in nodes],
            interfaces=interfaces,
            destinations=[cidr for node in nodes for cidr in pod_cidrs(node)],
            offered=offered,
            public_key=key,
        )

    async def _publish(self, own: MeshMachine, nodes: list[Node]) -> None:
        """Write the annotations of this machine to its nodes."""
        desired = annotations_of(own)
        for node in nodes:
            present = node.metadata.annotations
            if all(present.get(key) == value for key, value in desired.items()):
                continue
            try:
                patch = {"metadata": {"annotations": desired}}
                await self._client.for_kind(Node).patch(node.metadata.name, patch, type=PatchType.MERGE)
            except (errors.ApiError, ConnectionFailed) as error:
                log.warning("cannot publish the addresses of this machine on node %s: %s", node.metadata.name, error)

    def _warn(self, plan: MeshPlan) -> None:
        """Log each set of unreachable nodes once, if it persists: a new machine is unreachable until both machines have
        published their addresses."""
        now = self._clock.monotonic()
        if plan.unreachable != self._unreachable:
            self._unreachable, self._unreachable_since, self._is_warned = plan.unreachable, now, False
        if self._is_warned or now - self._unreachable_since < _PERSISTENT_S:
            return
        self._is_warned = True
        for node, reason in plan.unreachable.items():
            log.warning("pods of node %s are not reachable from this machine: %s", node, reason)

    def _open_links(self) -> MeshLinks:
        if self._links is None:
            config = self._config
            self._links = MeshLinks(
                identity=config.identity, cluster=config.cluster, wireguard_port=config.wireguard_port
            )
        return self._links

    async def _run_in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)


def remove_mesh(config: MeshConfig) -> None:
    """Remove all routes and tunnels of this cluster from the machine. The call blocks."""

    def remove() -> None:
        if not has_leftovers(config.identity):
            return
        links = MeshLinks(identity=config.identity, cluster=config.cluster, wireguard_port=config.wireguard_port)
        try:
            links.remove_all()
        finally:
            links.close()

    config.namespace.run(remove)


def pod_mtu(config: MeshConfig) -> int:
    """Return the MTU of pods on this machine.

    It is the MTU of the path to the other machines, minus the overhead of a tunnel if most packets need one. The call
    blocks.
    """

    def read() -> int:
        links = MeshLinks(identity=config.identity, cluster=config.cluster, wireguard_port=config.wireguard_port)
        try:
            interfaces = links.interfaces(config.addresses)
            if not interfaces or config.backend == NONE:
                return 0
            server = resolve(config.server) if config.server else ""
            is_near = not server or is_in_subnet_of(server, [str(interface) for interface in interfaces])
            backend = expected_backend(config, is_near=is_near)
            return tunnel_mtu(backend, links.underlay_mtu(config.addresses[0]), interfaces[0].version)
        finally:
            links.close()

    return config.namespace.run(read)


def _relevant_fields(node: Node) -> tuple[object, ...]:
    """Return the parts of a node that the mesh depends on. Heartbeats change other parts only."""
    return (
        dict(node.metadata.annotations),
        list(node.spec.podCIDRs),
        [address.address for address in node.status.addresses],
    )


def ensure_private_key(path: Path) -> str:
    """Return the private key of WireGuard as base64, creating the file, which only its owner can read, if it is missing
    or damaged."""
    try:
        text = path.read_text().strip()
        if len(base64.b64decode(text, validate=True)) == _KEY_LENGTH:
            return text
    except (OSError, UnicodeDecodeError, binascii.Error):
        pass
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    text = base64.b64encode(X25519PrivateKey.generate().private_bytes_raw()).decode()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(path, f"{text}\n".encode())
    return text


def public_key(private_key: str) -> str:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    key = X25519PrivateKey.from_private_bytes(base64.b64decode(private_key))
    return base64.b64encode(key.public_key().public_bytes_raw()).decode()
