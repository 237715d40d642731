"""Node ports on localhost, by sockets in user space.

Packet rules cannot redirect loopback addresses safely (CVE-2020-8558), so that `curl localhost:30080` needs a process
that listens. `NodePortBackends` knows the node ports of a node; `LocalhostPorts` listens on 127.0.0.1 and ::1, either
in the network namespace of a node, or on the machine on behalf of all nodes that it runs.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Sequence
from typing import NamedTuple

from sampan.api.types.core_v1 import ObjectReference
from sampan.host.clock import Clock
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.machinery.events import WARNING, EventRecorder
from sampan.machinery.object_key import NamespacedName
from sampan.network.proxy.services import ServicePortState, family_of
from sampan.network.proxy.tracker import ServiceChange
from sampan.network.proxy.userspace.endpoint_sockets import EndpointSockets
from sampan.network.relay_listeners import PROTOCOLS, RelayAddress, RelayListeners

log = logging.getLogger(__name__)

LOCALHOST = ("127.0.0.1", "::1")
REASON = "LocalhostNodePortUnavailable"


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
            if port.protocol in PROTOCOLS
        }

    async def on_changes(self, changes: Sequence[ServiceChange]) -> None:
        for change in changes:
            for state in change.previous:
                port = NodePort(state.info.protocol, state.info.node_port)
                states = self._states.get(port, {})
                listeners = states.get(state.info.family)
                if listeners is not None and listeners.info.name == state.info.name:
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

    def __init__(self, *, namespace: NetworkNamespace, events: EventRecorder, place: str) -> None:
        """Create the listeners. `place` names the node or the machine in events."""
        self._events, self._where = events, place
        self._nodes: list[NodePortBackends] = []
        self._services: dict[NodePort, NamespacedName] = {}
        self._listeners = RelayListeners(namespace=namespace, upstream=self._connect, on_failure=self._report)

    async def __aenter__(self) -> LocalhostPorts:
        await self._listeners.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._listeners.__aexit__(*exc)

    def add(self, node: NodePortBackends) -> None:
        self._nodes.append(node)
        self.sync()

    def remove(self, node: NodePortBackends) -> None:
        """Stop using a node. Its ports stay open if another node has them."""
        self._nodes.remove(node)
        self.sync()

    def sync(self) -> None:
        """Open and close sockets after a change of node ports."""
        self._services = {port: service for node in self._nodes for port, service in node.services().items()}
        self._listeners.sync(
            [RelayAddress(port.protocol, address, port.number) for port in self._services for address in LOCALHOST]
        )

    def _report(self, address: RelayAddress, error: OSError) -> None:
        service = self._services[NodePort(address.protocol, address.port)]
        message = (
            f"node port {address.port}/{address.protocol} is not available on {address.address} of {self._where}: "
            f"{error.strerror}"
        )
        log.warning("service %s: %s", service, message)
        reference = ObjectReference(kind="Service", namespace=service.namespace, name=service.name, apiVersion="v1")
        self._events.event(reference, WARNING, REASON, message)

    async def _connect(self, address: RelayAddress, client: str) -> socket.socket:
        """Connect through the first node that accepts the connection. A node that has stopped may still be in the
        list."""
        port, family = NodePort(address.protocol, address.port), family_of(address.address)
        error: OSError = ConnectionRefusedError(errno.ECONNREFUSED, f"there is no node for port {port.number}")
        for node in self._nodes:
            try:
                return await node.connect(port, family, client)
            except OSError as failure:
                error = failure
        raise error
