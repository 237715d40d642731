"""Node ports on localhost, by sockets in user space.

Packet rules cannot redirect loopback addresses safely (CVE-2020-8558), so that `curl localhost:30080` needs a process
that listens. `NodePortBackends` knows the node ports of a node; `LocalhostPorts` listens on 127.0.0.1 and ::1, either
in the network namespace of a node, or on the machine on behalf of all nodes that it runs.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Sequence
from typing import NamedTuple

from sampan.api.types.core_v1 import ObjectReference
from sampan.machinery.clock import Clock
from sampan.machinery.events.recorder import WARNING, EventRecorder
from sampan.machinery.network_namespace import NetworkNamespace
from sampan.machinery.object_key import NamespacedName
from sampan.network.http_port import bound_socket
from sampan.network.proxy.endpoint_sockets import EndpointSockets
from sampan.network.proxy.services import IPV4, IPV6, TCP, UDP, ServicePortState
from sampan.network.proxy.tracker import ServiceChange
from sampan.network.relay import MOST_CONNECTIONS, DatagramRelay, StreamRelay

log = logging.getLogger(__name__)

ADDRESSES = {IPV4: "127.0.0.1", IPV6: "::1"}
REASON = "LocalhostNodePortUnavailable"
_RETRY_S = 10.0


class NodePort(NamedTuple):
    protocol: str
    number: int


class NodePortBackends:
    """The node ports of one node, and connections to their endpoints. An observer of services."""

    def __init__(self, *, namespace: NetworkNamespace, clock: Clock) -> None:
        self._sockets = EndpointSockets(namespace=namespace, clock=clock)
        self._states: dict[NodePort, dict[str, ServicePortState]] = {}
        """Service ports by node port and IP family."""

    def close(self) -> None:
        self._sockets.close()

    def services(self) -> dict[NodePort, NamespacedName]:
        """Return the service of each node port that can be relayed: SCTP cannot."""
        return {
            port: next(iter(states.values())).info.name.service
            for port, states in self._states.items()
            if port.protocol in (TCP, UDP)
        }

    async def on_changes(self, changes: Sequence[ServiceChange]) -> None:
        for change in changes:
            for state in change.previous:
                port = NodePort(state.info.protocol, state.info.node_port)
                states = self._states.get(port, {})
                known = states.get(state.info.family)
                if known is not None and known.info.name == state.info.name:
                    del states[state.info.family]
                if not states:
                    self._states.pop(port, None)
        for change in changes:
            for state in change.current:
                if state.info.node_port:
                    port = NodePort(state.info.protocol, state.info.node_port)
                    self._states.setdefault(port, {})[state.info.family] = state

    async def connect(self, port: NodePort, family: str, client: str) -> socket.socket:
        """Connect to an endpoint, preferably of the IP family of the client. Local clients use the endpoints of the
        traffic policy Cluster, as packet rules do for the node's own traffic. Raise OSError."""
        states = self._states.get(port, {})
        ordered = sorted(states.values(), key=lambda state: (not state.categories.cluster, state.info.family != family))
        if not ordered:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"there is no node port {port.number}")
        return await self._sockets.connect(ordered[0], ordered[0].categories.cluster, client)


class LocalhostPorts:
    """Listens on localhost for the node ports of the nodes that were added. `async with` closes everything at the end.

    A port that is in use by another program or cluster is reported as an event of its service and tried again.
    """

    def __init__(self, *, namespace: NetworkNamespace, events: EventRecorder, where: str) -> None:
        """`where` names the listener in events: the node, or the machine."""
        self._namespace, self._events, self._where = namespace, events, where
        self._nodes: list[NodePortBackends] = []
        self._relays: dict[tuple[NodePort, str], asyncio.Task[None]] = {}
        """Running relays by node port and IP family."""
        self._failed: set[tuple[NodePort, str]] = set()
        self._limit = asyncio.Semaphore(MOST_CONNECTIONS)
        self._group = asyncio.TaskGroup()
        self._retries: asyncio.Task[None] | None = None

    async def __aenter__(self) -> LocalhostPorts:
        await self._group.__aenter__()
        self._retries = self._group.create_task(self._retry())
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._retries is not None
        for task in (self._retries, *self._relays.values()):
            task.cancel()
        await self._group.__aexit__(None, None, None)

    def add(self, node: NodePortBackends) -> None:
        self._nodes.append(node)
        self.sync()

    def remove(self, node: NodePortBackends) -> None:
        """Stop using a node. Its ports stay open if another node has them."""
        self._nodes.remove(node)
        self.sync()

    def sync(self) -> None:
        """Open and close sockets after a change of node ports."""
        services: dict[NodePort, NamespacedName] = {}
        for node in self._nodes:
            services.update(node.services())
        for port, family in [key for key in self._relays if key[0] not in services]:
            self._relays.pop((port, family)).cancel()
        self._failed = {key for key in self._failed if key[0] in services}
        for port, service in services.items():
            for family in ADDRESSES:
                if (port, family) not in self._relays:
                    self._open(port, family, service)

    def _open(self, port: NodePort, family: str, service: NamespacedName) -> None:
        address, kind = ADDRESSES[family], socket.SOCK_STREAM if port.protocol == TCP else socket.SOCK_DGRAM
        try:
            listener = bound_socket(self._namespace, address, port.number, kind)
        except OSError as error:
            if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):  # no IPv6 here
                self._report(port, family, service, error)
            return
        self._failed.discard((port, family))

        async def upstream(client: str) -> socket.socket:
            return await self._connect(port, family, client)

        relay: StreamRelay | DatagramRelay
        if port.protocol == TCP:
            relay = StreamRelay(listener=listener, upstream=upstream, limit=self._limit)
        else:
            relay = DatagramRelay(listener=listener, upstream=upstream)
        self._relays[port, family] = self._group.create_task(relay.run())

    def _report(self, port: NodePort, family: str, service: NamespacedName, error: OSError) -> None:
        if (port, family) in self._failed:
            return
        self._failed.add((port, family))
        message = (
            f"node port {port.number}/{port.protocol} is not available on {ADDRESSES[family]} of {self._where}: "
            f"{error.strerror}"
        )
        log.warning("service %s: %s", service, message)
        about = ObjectReference(kind="Service", namespace=service.namespace, name=service.name, apiVersion="v1")
        self._events.event(about, WARNING, REASON, message)

    async def _connect(self, port: NodePort, family: str, client: str) -> socket.socket:
        """Connect through the first node that can: a node that has stopped may still be in the list."""
        error: OSError = ConnectionRefusedError(errno.ECONNREFUSED, f"there is no node for port {port.number}")
        for node in self._nodes:
            try:
                return await node.connect(port, family, client)
            except OSError as failure:
                error = failure
        raise error

    async def _retry(self) -> None:
        while True:
            await asyncio.sleep(_RETRY_S)
            if self._failed:
                self.sync()
