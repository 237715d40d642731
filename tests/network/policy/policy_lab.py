"""A node with nine pods in network namespaces, x/a to z/c, whose policies are enforced by the kernel."""

from __future__ import annotations

import asyncio
import errno
import selectors
import socket
import struct
import threading
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from sampan.api.types.core_v1 import Namespace, Pod
from sampan.api.types.networking_v1 import NetworkPolicy, NetworkPolicySpec
from sampan.host.clock import RealClock
from sampan.host.linux.network_namespace import NetworkNamespace, enter_network, run_in_network
from sampan.machinery.object_key import NamespacedName, key_of
from sampan.network.pods import BridgeConfig, BridgeNetwork
from sampan.network.policy.compiler import PolicyConfig
from sampan.network.policy.enforcer import PolicyEnforcer
from sampan.network.policy.pods import endpoint_of
from sampan.network.policy.policy_spec import policy_spec
from tests.eventually import wait_until
from tests.network.pods.lab import OUTSIDE_IP, Lab
from tests.network.policy import objects
from tests.network.policy.oracle import Oracle, Packet

BRIDGE = "tstp0"
PODS = tuple(f"{namespace}/{name}" for namespace in "xyz" for name in "abc")
PORTS = (80, 81)
NAMED = tuple((f"serve-{port}-{protocol.lower()}", protocol, port) for port in PORTS for protocol in ("TCP", "UDP"))
_ALLOWED_WAIT_S, _DENIED_WAIT_S = 1.0, 0.08
_ALLOWED_WAITS = 20
"""How often datagrams are sent that should get through: the kernel drops some while a neighbor is resolved."""
_SCTP = 132

T = TypeVar("T")
Probe = tuple[str, str, str, int]
"""A source pod, a destination pod, a protocol and a port."""


class EnforcerIsolation:
    """Isolates pods by an enforcer without informers."""

    def __init__(self, enforcer: PolicyEnforcer) -> None:
        self._enforcer = enforcer

    def adopt(self, uid: str, addresses: Sequence[str]) -> None:
        self._enforcer.compiler.attach(uid, addresses)

    async def isolate(self, uid: str, addresses: Sequence[str]) -> None:
        await self._enforcer.isolate(uid, addresses)

    async def release(self, uid: str) -> None:
        self._enforcer.compiler.detach(uid)
        await self._enforcer.commit()

    async def remove_all(self) -> None:
        await self._enforcer.remove_all()


class PolicyLab:
    """Objects are put and removed as in a cluster; `commit` makes them effective; `reachable` sends real packets."""

    def __init__(self, directory: Path, cidrs: Sequence[str] = ("10.77.0.0/24", "fd77::/64")) -> None:
        self.lab = Lab(directory)
        self._stack = ExitStack()
        self._stack.callback(self.lab.close)
        self._loop = asyncio.new_event_loop()
        thread = threading.Thread(target=self._serve_loop)
        thread.start()
        self._stack.callback(thread.join)
        self._stack.callback(lambda: self._loop.call_soon_threadsafe(self._loop.stop))
        config = PolicyConfig(node="n0", bridge=BRIDGE, node_addresses=[OUTSIDE_IP])
        self.enforcer = self.run(self._make_enforcer(config))
        self._stack.callback(self.enforcer.close)
        self.namespaces: dict[str, Namespace] = {}
        self.pods: dict[str, Pod] = {}
        self.policies: dict[NamespacedName, NetworkPolicy] = {}
        self.addresses: dict[str, Sequence[str]] = {}
        self.network_namespaces: dict[str, Path] = {}
        self._servers = Servers()
        self._stack.callback(self._servers.close)
        self.network = self.run(self._connect(directory / "network", cidrs))

    def close(self) -> None:
        self.run(self.network.remove_all())
        self.run(self.network.__aexit__())
        self._stack.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the node."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def _serve_loop(self) -> None:
        enter_network(self.lab.node)
        self._loop.run_forever()
        self._loop.close()

    async def _make_enforcer(self, config: PolicyConfig) -> PolicyEnforcer:
        enforcer = PolicyEnforcer(config=config, namespace=NetworkNamespace(self.lab.node), clock=RealClock())
        await enforcer.start()
        return enforcer

    async def _connect(self, directory: Path, cidrs: Sequence[str]) -> BridgeNetwork:
        isolation = EnforcerIsolation(self.enforcer)
        network = BridgeNetwork(
            directory=directory, config=BridgeConfig(bridge=BRIDGE), clock=RealClock(), isolation=isolation
        )
        await network.__aenter__()
        network.use_pod_cidrs(cidrs)
        for name in "xyz":
            self.put(objects.namespace(name))
        for key in PODS:
            namespace = self.network_namespaces[key] = self.lab.add_namespace(key.replace("/", "-"))
            self.put(objects.pod(key, labels=labels_of(key), ports=NAMED))
            self.addresses[key] = await network.attach(f"uid-{key}", namespace, [])
            self.put(objects.pod(key, *self.addresses[key], labels=labels_of(key), ports=NAMED))
            self._servers.serve(namespace)
        await self.enforcer.commit()
        return network

    def check_network(self) -> None:
        """Let the pod network restore what was removed, as it does periodically."""
        self.run(self.network._run_in_thread(self.network._machine.check))

    # -- objects -----------------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Restore the initial objects: no policies, and the initial labels of namespaces and pods."""
        for policy in list(self.policies.values()):
            self.remove(policy)
        for namespace in "xyz":
            self.put(objects.namespace(namespace))
        for key in PODS:
            self.relabel(key, labels_of(key))
        self.commit()

    def put(self, item: Namespace | Pod | NetworkPolicy) -> None:
        compiler = self.enforcer.compiler
        if isinstance(item, Namespace):
            self.namespaces[item.metadata.name] = item
            compiler.put_namespace(item.metadata.name, item.metadata.labels)
        elif isinstance(item, Pod):
            self.pods[str(key_of(item))] = item
            compiler.put_pod(key_of(item), endpoint_of(item))
        else:
            self.policies[key_of(item)] = item
            compiler.put_policy(key_of(item), policy_spec(item))

    def remove(self, policy: NetworkPolicy) -> None:
        del self.policies[key_of(policy)]
        self.enforcer.compiler.put_policy(key_of(policy), None)

    def policy(self, key: str, spec: NetworkPolicySpec) -> NetworkPolicy:
        policy = objects.policy(key, spec)
        self.put(policy)
        return policy

    def relabel(self, key: str, labels: Mapping[str, str]) -> None:
        self.put(objects.pod(key, *self.addresses[key], labels=labels, ports=NAMED))

    def commit(self) -> None:
        self.run(self.enforcer.commit())

    # -- packets -----------------------------------------------------------------------------------------------------

    def oracle(self) -> Oracle:
        return Oracle(namespaces=self.namespaces.values(), pods=self.pods.values(), policies=self.policies.values())

    def reachable(self, probes: Iterable[Probe], expected: Mapping[Probe, bool], version: int = 4) -> dict[Probe, bool]:
        """Return which probes get through. Wait long for probes that are expected to, and briefly for all others."""
        attempts = self._attempts(probes, version)
        awaited = [attempt for probe, attempt in attempts.items() if expected[probe]]
        try:
            for _ in range(_ALLOWED_WAITS):
                with suppress(TimeoutError):
                    wait_until(
                        lambda: all(attempt.is_through() for attempt in awaited),
                        timeout_s=_ALLOWED_WAIT_S,
                        poll_s=0.005,
                    )
                    break
                for attempt in awaited:
                    if not attempt.is_through():
                        attempt.send()
            time.sleep(_DENIED_WAIT_S)  # a packet that is dropped leaves no trace to wait for
            return {probe: attempt.is_through() for probe, attempt in attempts.items()}
        finally:
            for attempt in attempts.values():
                attempt.close()

    def check(self, port: int = 80, protocol: str = "TCP", version: int = 4) -> dict[tuple[str, str], bool]:
        """Return which pods reach which, after a comparison of the packets with the oracle."""
        oracle, index = self.oracle(), 0 if version == 4 else 1
        expected = {}
        for source in PODS:
            for destination in PODS:
                if source != destination:
                    packet = Packet(self.addresses[source][index], self.addresses[destination][index], protocol, port)
                    expected[(source, destination, protocol, port)] = oracle.allows(packet)
        through = self.reachable(expected, expected, version)
        assert {probe for probe, is_through in through.items() if is_through} == {
            probe for probe, is_allowed in expected.items() if is_allowed
        }
        return {(source, destination): is_through for (source, destination, _, _), is_through in through.items()}

    def _attempts(self, probes: Iterable[Probe], version: int) -> dict[Probe, Attempt]:
        """Start the attempts of each source in its namespace."""
        by_source: dict[str, list[Probe]] = {}
        for probe in probes:
            by_source.setdefault(probe[0], []).append(probe)
        attempts: dict[Probe, Attempt] = {}
        for source, of_source in by_source.items():
            start = partial(self._attempts_from_here, of_source, version)
            attempts |= run_in_network(self.network_namespaces[source], start)
        return attempts

    def _attempts_from_here(self, probes: Iterable[Probe], version: int) -> dict[Probe, Attempt]:
        return {probe: self._attempt(probe, version) for probe in probes}

    def _attempt(self, probe: Probe, version: int) -> Attempt:
        source, destination, protocol, port = probe
        to = (self.addresses[destination][0 if version == 4 else 1], port)
        if protocol == "SCTP":
            return SctpAttempt(self.network_namespaces[destination], self.addresses[source][0], to)
        return Attempt(to, protocol)


def labels_of(key: str) -> dict[str, str]:
    return {"pod": key.partition("/")[2], "ns": key.partition("/")[0]}


class Attempt:
    """A connection that may be established, or a datagram that may be answered, from the namespace of the thread."""

    def __init__(self, to: tuple[str, int], protocol: str) -> None:
        family = socket.AF_INET6 if ":" in to[0] else socket.AF_INET
        self._is_stream = protocol == "TCP"
        kind = socket.SOCK_STREAM if self._is_stream else socket.SOCK_DGRAM
        self._socket = socket.socket(family, kind | socket.SOCK_NONBLOCK)
        self._result: bool | None = None
        self._socket.connect_ex(to)
        self.send()

    def send(self) -> None:
        """Send a datagram, which nobody repeats if it is lost. The kernel repeats the segments of a connection."""
        if not self._is_stream:
            with suppress(OSError):  # the error of an earlier datagram, which `is_through` reports
                self._socket.send(b"?")

    def is_through(self) -> bool:
        if self._result is None:
            self._result = self._poll()
        return bool(self._result)

    def _poll(self) -> bool | None:
        try:
            if self._is_stream:
                self._socket.getpeername()
            else:
                self._socket.recv(10)
        except OSError as error:
            return None if error.errno in (errno.ENOTCONN, errno.EAGAIN) else False
        return True

    def close(self) -> None:
        self._socket.close()


class SctpAttempt(Attempt):
    """An INIT of SCTP from a raw socket, so that the kernel needs no SCTP."""

    def __init__(self, target: Path, source: str, to: tuple[str, int]) -> None:
        self._result, self._source = None, source
        self._port = struct.pack("!H", to[1])
        self._receiver = run_in_network(target, _open_raw_socket)
        self._socket = _open_raw_socket()
        self._to = to
        self.send()

    def send(self) -> None:
        init = struct.pack("!BBHIIHHI", 1, 0, 20, 7, 65535, 1, 1, 1)
        self._socket.sendto(struct.pack("!HHII", 9999, self._to[1], 0, 0) + init, (self._to[0], 0))

    def _poll(self) -> bool | None:
        with suppress(BlockingIOError):
            while True:
                data, peer = self._receiver.recvfrom(200)
                if peer[0] == self._source and data[22:24] == self._port:
                    return True
        return None

    def close(self) -> None:
        super().close()
        self._receiver.close()


def _open_raw_socket() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, _SCTP)


class Servers:
    """Accepts connections and answers datagrams on the ports of all pods, in one thread."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._is_closed = False
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def serve(self, namespace: Path) -> None:
        for port in PORTS:
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                self._selector.register(run_in_network(namespace, partial(_listen, kind, port)), 1)

    def close(self) -> None:
        self._is_closed = True
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        self._selector.close()

    def _work(self) -> None:
        while not self._is_closed:
            for key, _ in self._selector.select(0.1):
                server = key.fileobj
                assert isinstance(server, socket.socket)
                with suppress(OSError):
                    if server.type == socket.SOCK_STREAM:
                        server.accept()[0].close()
                    else:
                        server.sendto(b"!", server.recvfrom(10)[1])


def _listen(kind: socket.SocketKind, port: int) -> socket.socket:
    server = socket.socket(socket.AF_INET6, kind | socket.SOCK_NONBLOCK)
    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    server.bind(("::", port))
    if kind == socket.SOCK_STREAM:
        server.listen(512)
    return server
