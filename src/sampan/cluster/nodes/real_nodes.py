"""The real nodes of a cluster in one process, each with its own kubelet, directories, cgroups and runtime.

A node is its Node object, as with hollow nodes: a node with the annotation of this cluster's runtime is run unless it
is stopped. If it is deleted, all of its pods are stopped.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from sampan.api.semantics.conditions import find_condition, is_true
from sampan.api.types.core_v1 import Node
from sampan.cluster.cluster_cidrs import cluster_cidr, pod_cidr_of
from sampan.cluster.errors import ClusterError
from sampan.cluster.machine.host_locks import HostLocks
from sampan.cluster.machine.loopback_range import is_proxied_in_user_space, loopback_services
from sampan.cluster.nodes.abandoned_node import (
    abandoned_network,
    abandoned_runtime,
    root_cgroup_of,
    stop_abandoned_node,
)
from sampan.cluster.nodes.kubelet_ports import MakePorts
from sampan.cluster.nodes.node_network import NodeNetworks
from sampan.cluster.nodes.node_runtime import RuntimeConfig, RuntimeRecord, runtime_maker
from sampan.cluster.nodes.node_summary import not_ready_text, ready_timeout_s
from sampan.cluster.nodes.nodes_config import NodesConfig
from sampan.host.activity import Activity
from sampan.host.backoff import Backoff
from sampan.host.clock import Clock
from sampan.host.linux.user_namespace import is_in_user_namespace
from sampan.kubelet.agent.config import IMAGE_GC_OFF, LOCAL_HARD_EVICTION, AgentConfig
from sampan.kubelet.agent.garbage_collection import remove_directory
from sampan.kubelet.agent.kubelet import Kubelet, build_kubelet
from sampan.kubelet.config import PORT, KubeletConfig
from sampan.kubelet.hollow_nodes import NAME_PREFIX, RUNTIME, is_powered_on
from sampan.kubelet.server.ports import serve_kubelet
from sampan.machinery.client import Client
from sampan.machinery.control_loop.supervision import NoSupervision, Supervision
from sampan.machinery.control_loop.workqueue import WorkQueue
from sampan.machinery.informer import InformerFactory
from sampan.machinery.telemetry.flight_recorder import FlightRecorder
from sampan.network.nodes import NodeAttachment, NodeAttachments, remove_bridge
from sampan.runtimes.contract import RuntimeFailure

log = logging.getLogger(__name__)

_DNS_TIMEOUT_S = 5
_MAX_CONCURRENT_SYNCS = 4


_NAMED = 100
"""The first number for nodes whose names do not contain one."""


class RealNodes:
    """Runs real nodes. `run()` returns only when it is cancelled, after stopping everything that the nodes run."""

    def __init__(
        self,
        *,
        config: NodesConfig,
        client: Client,
        client_for: Callable[[str], Client],
        clock: Clock,
        activity: Activity,
        recorder: FlightRecorder | None,
        locks: HostLocks,
        attachments: NodeAttachments,
        networks: NodeNetworks,
        make_ports: MakePorts | None = None,
        supervision: Supervision | None = None,
    ) -> None:
        """`client` watches all nodes; the clients of `client_for` have the permissions of one node. Without
        `make_ports` only the API server of the same process can reach the kubelets."""
        assert config.root is not None
        self._supervision = supervision or NoSupervision()
        self._config, self._root, self._locks, self._make_ports = config, config.root, locks, make_ports
        self._attachments, self._networks = attachments, networks
        self._own_pod_cidrs: dict[str, Sequence[str]] = {}
        """The pod CIDRs of running nodes by name, if no controller allocates them."""
        self._routes_due = asyncio.Event()
        self._client_for, self._clock, self._activity, self._recorder = client_for, clock, activity, recorder
        self._informers = InformerFactory(client=client, activity=activity, supervision=self._supervision)
        self._nodes = self._informers.for_kind(Node)
        self._first = [f"{NAME_PREFIX}{number}" for number in range(config.real_count)]
        """The initial nodes, which are run even before they have Node objects."""
        self._unseen = set(self._first)
        """Initial nodes that have never had a Node object."""
        self._running: dict[str, asyncio.Task[None]] = {}
        self._kubelets: dict[str, asyncio.Future[Kubelet]] = {}
        """The kubelets of the running nodes, as futures that complete when the kubelet is built."""
        self._queue: WorkQueue[str] = WorkQueue(clock=clock, backoff=Backoff(0.1, 10), activity=activity)
        self._has_started = asyncio.Event()
        self._has_changed = asyncio.Event()
        """Set when a Node object changes, for `ready`."""
        self._group: asyncio.TaskGroup | None = None

    @property
    def kubelets(self) -> list[Kubelet]:
        """The kubelets of the running nodes."""
        return [kubelet.result() for kubelet in self._kubelets.values() if kubelet.done() and not kubelet.cancelled()]

    @property
    def listen_addresses(self) -> list[tuple[str, int]]:
        """The addresses and ports on which the components beside the kubelets accept connections."""
        return self._networks.listen_addresses

    async def run(self) -> None:
        async with self._informers, self._attachments, self._networks, asyncio.TaskGroup() as self._group:
            await self._nodes.synced.wait()
            self._nodes.subscribe(self._on_node)
            await self._leave_other_networks()
            self._group.create_task(self._attachments.run())
            self._group.create_task(self._route())
            for name in self._first:
                await self._sync(name)
            self._has_started.set()
            await self._queue.serve(self._work, _MAX_CONCURRENT_SYNCS)

    async def ready(self) -> None:
        """Wait until the nodes are Ready and their DNS and Ingress servers accept connections. Raise ClusterError,
        which names the other nodes, after the time limit of the nodes."""
        timeout_s = ready_timeout_s(self._config.real_count)
        try:
            async with asyncio.timeout(timeout_s):
                await self._has_started.wait()
                for kubelet in list(self._kubelets.values()):
                    await (await asyncio.shield(kubelet)).ready.wait()
                while self._list_missing():
                    self._has_changed.clear()
                    await self._has_changed.wait()
        except TimeoutError:
            if missing := self._list_missing():
                reason = _not_ready_reason(self._nodes.lister.get(missing[0]))
                raise ClusterError(not_ready_text(missing, timeout_s, reason)) from None
        try:
            async with asyncio.timeout(_DNS_TIMEOUT_S):
                await self._networks.ready()
        except TimeoutError:
            log.warning("the DNS and Ingress servers of some nodes do not accept connections yet")

    def _list_missing(self) -> list[str]:
        """Return the names of the nodes that should run, but are not Ready."""
        present = [node.metadata.name for node in self._nodes.lister.list() if self._is_ours(node)]
        names = dict.fromkeys([*self._first, *present])
        nodes = {name: self._nodes.lister.get(name) for name in names}
        return [
            name
            for name, node in nodes.items()
            if (is_powered_on(node) if node is not None else name in self._unseen)
            and (node is None or not is_true(node.status.conditions, "Ready"))
        ]

    # -- changes -----------------------------------------------------------------------------------------------------

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        assert node is not None
        self._unseen.discard(node.metadata.name)
        self._has_changed.set()
        if old is None or new is None or _route_inputs(old) != _route_inputs(new):
            self._routes_due.set()
        if self._is_ours(node):
            self._queue.add(node.metadata.name)

    def _is_ours(self, node: Node) -> bool:
        name = node.metadata.name
        return name in self._running or node.metadata.annotations.get(RUNTIME) == self._config.runtime

    async def _work(self, name: str) -> None:
        try:
            await self._sync(name)
        except Exception:
            log.exception("node %s failed to start; retrying in %g s", name, self._queue.retry(name))
        else:
            self._queue.forget(name)

    async def _sync(self, name: str) -> None:
        node, is_running = self._nodes.lister.get(name), name in self._running
        is_wanted = is_powered_on(node) if node is not None else name in self._unseen
        if is_running and not is_wanted:
            await self._stop(name)
        elif is_wanted and not is_running:
            self._start(name)
        if node is None and not is_wanted:
            await asyncio.to_thread(remove_directory, self._root / name)

    async def _route(self) -> None:
        """Route the pod CIDRs of all nodes whenever a node changes."""
        while True:
            await self._routes_due.wait()
            self._routes_due.clear()
            try:
                await self._attachments.route([self._with_own_pod_cidrs(node) for node in self._nodes.lister.list()])
            except Exception:  # Invalid data of other nodes must not stop the nodes of this process.
                log.exception("cannot route the pod CIDRs of the nodes")

    def _start(self, name: str) -> None:
        assert self._group is not None
        self._kubelets[name] = asyncio.get_running_loop().create_future()
        self._running[name] = self._group.create_task(self._supervision.run(name, lambda: self._run_node(name)))

    async def _stop(self, name: str) -> None:
        """Stop a node as a power failure would: its containers are stopped, and the API server is not notified."""
        task = self._running.pop(name)
        task.cancel()
        await asyncio.wait([task])
        self._kubelets.pop(name).cancel()

    async def _run_node(self, name: str) -> None:
        attachment = await self._attachments.attach(name)
        try:
            await self._run_attached(attachment)
        finally:
            if self._kubelets[name].done():
                self._kubelets[name] = asyncio.get_running_loop().create_future()
            await self._attachments.detach(name)

    async def _leave_other_networks(self) -> None:
        """Stop the pods that a killed process has left in network namespaces of another kind: those of the nodes if
        this process uses the network of the machine, or the reverse (`--node-network`). The pod networks of this
        process cannot take them over."""
        has_own_networks = bool(self._config.node_cidrs)
        for directory in [path for path in self._root.iterdir() if path.is_dir()] if self._root.is_dir() else ():
            had_own_network = abandoned_network(directory).path is not None
            if has_own_networks != had_own_network and (record := abandoned_runtime(directory)) is not None:
                await self._stop_abandoned(directory, record)
        if not has_own_networks:
            await asyncio.to_thread(remove_bridge, self._root)

    async def _stop_abandoned(self, directory: Path, record: RuntimeRecord) -> None:
        assert self._config.images is not None
        try:
            await stop_abandoned_node(directory, record, self._config.images)
        except (RuntimeFailure, OSError) as error:
            log.warning("node %s: cannot stop the pods that an earlier process has left: %s", directory.name, error)

    async def _run_attached(self, attachment: NodeAttachment) -> None:
        config = agent_config(self._config, self._root, attachment, self._locks)
        self._own_pod_cidrs[config.name] = config.pod_cidrs
        self._routes_due.set()
        network = self._networks.network_of(attachment)
        places = replace(runtime_config_of(self._config, attachment), isolation=network.isolation)
        async with (
            network.running(),
            build_kubelet(
                config=config,
                client=self._client_for(config.name),
                clock=self._clock,
                activity=self._activity,
                recorder=self._recorder,
                make_runtime=runtime_maker(self._config.runtime, places, self._clock),
                supervision=self._supervision.narrow_to(config.name),
            ) as kubelet,
            asyncio.TaskGroup() as group,
        ):
            self._kubelets[config.name].set_result(kubelet)
            group.create_task(kubelet.run())
            if self._make_ports is not None:
                group.create_task(self._serve(kubelet, attachment, self._make_ports))

    async def _serve(self, kubelet: Kubelet, attachment: NodeAttachment, make_ports: MakePorts) -> None:
        await kubelet.ready.wait()
        await serve_kubelet(kubelet, await asyncio.to_thread(make_ports, kubelet.config, attachment))

    def _with_own_pod_cidrs(self, node: Node) -> Node:
        cidrs = self._own_pod_cidrs.get(node.metadata.name)
        if node.spec.podCIDRs or not cidrs:
            return node
        return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, podCIDRs=list(cidrs)))


def _not_ready_reason(node: Node | None) -> str:
    condition = find_condition(node.status.conditions, "Ready") if node is not None else None
    return condition.message if condition is not None else "it is not registered"


def _route_inputs(node: Node) -> tuple[object, ...]:
    return node.spec.podCIDRs, node.spec.podCIDR, node.status.addresses


# -- configuration of the kubelets -----------------------------------------------------------------------------------


def runtime_config_of(config: NodesConfig, attachment: NodeAttachment) -> RuntimeConfig:
    assert config.images is not None
    return RuntimeConfig(
        node=attachment.node,
        directory=attachment.directory,
        images=config.images,
        endpoint=config.endpoint,
        cluster_cidrs=[*config.cluster_cidrs, *config.node_cidrs],
        namespace=attachment.namespace,
        stops_pods=True,
    )


def node_number(name: str) -> int:
    """Return the number in the name of a node, or else one derived from a hash of its name."""
    end = name.removeprefix(NAME_PREFIX)
    if name.startswith(NAME_PREFIX) and end.isdecimal():
        return int(end)
    return _NAMED + int(hashlib.blake2b(name.encode(), digest_size=2).hexdigest(), 16) % _NAMED


def agent_config(config: NodesConfig, root: Path, attachment: NodeAttachment, locks: HostLocks) -> AgentConfig:
    name, number, has_own_network = attachment.node, node_number(attachment.node), attachment.namespace.path is not None
    return AgentConfig(
        name=name,
        root=root / name / "kubelet",
        logs=root / name / "logs",
        kubelet=KubeletConfig(feature_gates=config.feature_gates),
        host_name=name if has_own_network else "",
        annotations={RUNTIME: config.runtime},
        node_ips=attachment.addresses,
        port=PORT if has_own_network else _port(PORT + number, locks),
        cgroup_root=root_cgroup_of(root, name),
        has_cgroups_per_qos=os.geteuid() == 0 and not is_in_user_namespace(),
        eviction_hard=LOCAL_HARD_EVICTION,
        image_gc_high=IMAGE_GC_OFF,
        images=config.images,
        ends_pods=True,
        needs_pod_cidr=config.has_pod_cidrs,
        pod_cidrs=() if config.has_pod_cidrs else (pod_cidr_of(cluster_cidr(config.root, locks), number % 256),),
        serializes_pulls=False,
        loopback_services=loopback_services(locks) if is_proxied_in_user_space(attachment) else None,
        cluster_dns=config.cluster_dns,
        cluster_domain=config.cluster_domain,
        resolv_conf=_resolv_conf(config, attachment.directory),
    )


def _resolv_conf(config: NodesConfig, directory: Path) -> Path:
    """Write the resolv.conf for pods with dnsPolicy Default, and return its path."""
    from sampan.network.dns.upstreams import RESOLV_CONF, choose_upstreams, node_resolv_conf

    try:
        text = (config.upstreams.resolv_conf or RESOLV_CONF).read_text(errors="replace")
    except OSError:
        text = ""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "resolv.conf"
    path.write_text(node_resolv_conf(text, choose_upstreams(config.upstreams), config.cluster_dns))
    return path


def _port(preferred: int, locks: HostLocks) -> int:
    """Return the default port, or any free one if another cluster of this machine uses it."""
    for number in (preferred, 0) if locks.acquire(f"port {preferred}") else (0,):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("0.0.0.0", number))
            except (OSError, OverflowError):  # the port of a node with a high number may be out of range
                continue
            return int(probe.getsockname()[1])
    return preferred
