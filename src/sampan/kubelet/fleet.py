"""A fleet of hollow nodes in one process, which share one pod watch, one node watch and one queue of each kind.

The Node objects determine which nodes exist (`hollow_nodes`): the fleet runs every hollow node that is powered on, from
its creation until its deletion. `client` watches pods and nodes and records events; each node writes with a client of
its own identity, which `client_for` returns.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence

from sampan.api.types.core_v1 import Node, Pod
from sampan.host.activity import Activity
from sampan.host.backoff import Backoff
from sampan.host.clock import Clock
from sampan.kubelet import hollow_nodes
from sampan.kubelet.admission import with_api_source
from sampan.kubelet.config import KubeletConfig
from sampan.kubelet.heartbeat import Heartbeat
from sampan.kubelet.hollow_pod_lifecycle import HollowPodLifecycle
from sampan.kubelet.hollow_references import HollowReferences
from sampan.kubelet.node_status import NodeMachine, declared_features
from sampan.kubelet.pod_events import PodEvents, PodTrace
from sampan.kubelet.records import NodeRecord, PodQueue, Records
from sampan.kubelet.status_manager import StatusManager
from sampan.kubelet.sync_loop import SyncLoop
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed, PatchType
from sampan.machinery.control_loop.supervision import Supervision
from sampan.machinery.control_loop.workqueue import WorkQueue
from sampan.machinery.events import WARNING, EventRecorder
from sampan.machinery.hollow import NODE_RANGE
from sampan.machinery.informer import Informer, InformerFactory
from sampan.runtimes.hollow import NO_STAGES, AddressRange, HollowRuntime, HollowStages, HollowWorld

log = logging.getLogger(__name__)

COMPONENT = "kubelet"
_SLOTS = 50
"""Number of slots within the heartbeat period over which the heartbeats of the nodes are spread. Consecutive nodes get
slots that are far apart.
"""
_STARTERS = 32


def by_node(pod: Pod) -> Iterable[Hashable]:
    return (pod.spec.nodeName,) if pod.spec.nodeName else ()


class Fleet:
    def __init__(
        self,
        *,
        client: Client,
        client_for: Callable[[str], Client],
        clock: Clock,
        config: KubeletConfig | None = None,
        stages: HollowStages = NO_STAGES,
        names: Sequence[str] = (),
        real_nodes: Collection[str] = (),
        activity: Activity | None = None,
        supervision: Supervision | None = None,
    ) -> None:
        """`real_nodes` are the names of real nodes, which the fleet does not run, even if a Node object of an earlier
        run says that they are hollow. If there are real nodes, all nodes of the fleet are tainted to keep out pods that
        do not tolerate the taint.
        """
        self._client, self._client_for, self._clock = client, client_for, clock
        self._real_nodes = real_nodes
        self.names = names
        """Nodes that are created at the start unless they exist."""
        self._config = config or KubeletConfig()
        self.activity = activity or Activity()
        """Activity of the queues and informers, which a virtual clock waits for."""
        self._world = HollowWorld(clock=clock, stages=stages)
        self._addresses = AddressRange(NODE_RANGE)
        self._informers = InformerFactory(client=client, activity=self.activity, supervision=supervision)
        self._nodes = self._informers.for_kind(Node)
        self._pods: Informer[Pod] | None = None
        """The pod informer. It is created with the first node, so that a fleet without nodes costs next to nothing."""
        self._recorder = self._make_recorder(client)
        events, records, workers = PodEvents(self._recorder), Records(), self._config.workers
        trace = PodTrace(recorder=None, node="")
        self.statuses = StatusManager(
            records=records, clock=clock, activity=self.activity, workers=workers, trace=trace
        )
        queue = PodQueue(records=records, clock=clock, activity=self.activity)
        self._references = HollowReferences(
            client=client,
            client_for=client_for,
            informers=self._informers,
            clock=clock,
            gates=self._config.feature_gates,
            on_change=queue.request_sync,
            warn=self._warn_pod,
            activity=self.activity,
        )
        self.sync_loop = SyncLoop(
            lifecycle=HollowPodLifecycle(events=events, clock=clock, references=self._references),
            records=records,
            queue=queue,
            statuses=self.statuses,
            events=events,
            clock=clock,
            workers=workers,
        )
        self._events = events
        self._heartbeat = Heartbeat(clock=clock, config=self._config, events=events)
        self._running: dict[str, NodeRecord] = {}
        self._were_off: set[str] = set()
        self._begun = 0
        self._queue: WorkQueue[str] = WorkQueue(clock=clock, backoff=Backoff(0.1, 10), activity=self.activity)
        self._first, self._changed = asyncio.Event(), asyncio.Event()

    def __contains__(self, name: str) -> bool:
        """Whether the node is one of the running nodes of the fleet."""
        return name in self._running

    def __len__(self) -> int:
        return len(self._running)

    def running_nodes(self) -> Sequence[NodeRecord]:
        """Return the records of all running nodes."""
        return list(self._running.values())

    # -- accessors ---------------------------------------------------------------------------------------------------

    def node(self, name: str) -> NodeRecord | None:
        """Return the record of a running node, or None."""
        return self._running.get(name)

    def pods_of(self, name: str) -> Sequence[Pod]:
        """Return the pods bound to the node."""
        return self._pods.lister.find(by_node, name) if self._pods is not None else ()

    def find_pod(self, namespace: str, name: str) -> Pod | None:
        return self._pods.lister.get(name, namespace) if self._pods is not None else None

    # -- lifecycle ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run the nodes until cancelled."""
        async with self._informers, asyncio.TaskGroup() as group:
            await self._nodes.synced.wait()
            for node in self._nodes.lister:
                self._claim_address(node)
            self._nodes.subscribe(self._on_node)
            group.create_task(self.register(self.names))
            group.create_task(self._queue.serve(self._work, _STARTERS))
            await self._first.wait()
            if self._recorder is not None:
                group.create_task(self._recorder.run())
            group.create_task(self.sync_loop.run())
            group.create_task(self.statuses.run())
            group.create_task(self._references.run())

    async def register(self, names: Sequence[str]) -> None:
        """Create those of the named nodes that do not exist yet."""
        limit = asyncio.Semaphore(_STARTERS)
        await self._nodes.synced.wait()

        async def make(name: str) -> None:
            async with limit:
                machine = self._machine(hollow_nodes.CAPACITY, self._addresses.take())
                node = hollow_nodes.ready_node(name, machine, self._clock.now())
                try:
                    await self._client_for(name).for_kind(Node).create(node)
                except errors.AlreadyExists:
                    self._addresses.give_back(machine.address)

        async with asyncio.TaskGroup() as group:
            for name in names:
                if self._nodes.lister.get(name) is None:
                    group.create_task(make(name))

    async def wait_until_running(self, names: Sequence[str]) -> None:
        """Wait until all named nodes run, except those that the fleet does not run: nodes that are powered off, and
        nodes whose Node object is that of a real node.
        """
        await self._nodes.synced.wait()
        for name in names:
            while not self._is_settled(name):
                self._changed.clear()
                await self._changed.wait()

    async def initial_names(self) -> list[str]:
        """Return the names of the nodes that the fleet runs from its start: those that it creates, and those that have
        Node objects."""
        await self._nodes.synced.wait()
        present = [node.metadata.name for node in self._nodes.lister if self._should_run(node)]
        return list(dict.fromkeys([*self.names, *present]))

    def list_missing(self, names: Iterable[str]) -> list[str]:
        """Return those of the named nodes that do not run yet, although the fleet should run them."""
        return [name for name in names if not self._is_settled(name)]

    # -- changes -----------------------------------------------------------------------------------------------------

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Route a pod change to the sync loop if the pod is bound to a running node."""
        pod = new if new is not None else old
        if pod is not None and (record := self._running.get(pod.spec.nodeName)) is not None:
            self.sync_loop.iteration(record, old, with_api_source(new) if new is not None else None)

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        name = (new or old).metadata.name  # type: ignore[union-attr]
        record = self._running.get(name)
        if new is not None and not hollow_nodes.is_powered_on(new):
            self._were_off.add(name)
        if record is None or not self._should_run(new):
            if record is not None or self._should_run(new):
                self._queue.add(name)
            return
        assert new is not None
        if new.metadata.uid != record.api_node.metadata.uid:
            self._queue.add(name)
            return
        record.is_changed = record.is_changed or new.status != record.api_node.status
        record.api_node = new
        record.runtime.use_pod_cidrs(new.spec.podCIDRs)

    # -- workers -----------------------------------------------------------------------------------------------------

    async def _work(self, name: str) -> None:
        try:
            again_s = await self._sync_node(name)
        except (errors.ApiError, ConnectionFailed) as error:
            level = logging.DEBUG if isinstance(error, errors.Conflict) else logging.WARNING
            log.log(level, "hollow node %s: %s; retrying in %g s", name, error, self._queue.retry(name))
        except Exception:
            log.exception("hollow node %s failed; retrying in %g s", name, self._queue.retry(name))
        else:
            self._queue.forget(name)
            if again_s is not None:
                self._queue.add_after(name, again_s)

    async def _sync_node(self, name: str) -> float | None:
        """Start or stop the node, or send its heartbeat if it is due. Return the seconds until the next heartbeat, or
        None if the node should not run.
        """
        node, record = self._nodes.lister.get(name), self._running.get(name)
        if record is not None and not self._is_same(node, record.api_node):
            self._stop(record)
            record = None
        if node is None or not self._should_run(node):
            return None
        if record is None:
            record = await self._start(name, node)
            record.beats_at = self._clock.monotonic() + self._pick_first_beat_delay_s()
        elif (now := self._clock.monotonic()) >= record.beats_at:
            await self._heartbeat.beat(record)
            record.beats_at = max(record.beats_at + self._config.renew_s, now + self._config.renew_s / 2)
        return record.beats_at - self._clock.monotonic()

    async def _taint(self, node: Node) -> Node:
        """Add the hollow taint to the node if there are real nodes. The fleet's client is used: a node may not change
        its own taints.
        """
        if not self._real_nodes or hollow_nodes.has_hollow_taint(node):
            return node
        patch = hollow_nodes.hollow_taint_patch(node, add=True)
        return await self._client.for_kind(Node).patch(node.metadata.name, patch, type=PatchType.MERGE)

    async def _start(self, name: str, node: Node) -> NodeRecord:
        node = await self._taint(node)
        now = self._world.now()
        has_booted = name in self._were_off
        runtime = HollowRuntime(world=self._world, booted_at=now if has_booted else 0)
        runtime.use_pod_cidrs(node.spec.podCIDRs)
        record = NodeRecord(
            name=name,
            client=self._client_for(name),
            runtime=runtime,
            machine=self._machine(hollow_nodes.capacity_of(node), self._address(node), str(now) if has_booted else ""),
            api_node=node,
        )
        await self._heartbeat.register(record)
        pods = await self._pod_source()
        self._were_off.discard(name)
        self._running[name] = record
        for pod in pods.lister.find(by_node, name):
            self.sync_loop.iteration(record, None, with_api_source(pod))
        self.activity.step()
        self._changed.set()
        return record

    def _warn_pod(self, pod: Pod, reason: str, message: str) -> None:
        node = self._running.get(pod.spec.nodeName)
        if node is not None:
            self._events.record_pod_event(node, pod, WARNING, reason, message)

    async def _pod_source(self) -> Informer[Pod]:
        """Return the shared pod informer once it has synced."""
        if self._pods is None:
            self._pods = self._informers.for_kind(Pod)
            self._pods.lister.add_index(by_node)
            self._pods.subscribe(self._on_pod)
            self._first.set()
        await self._pods.synced.wait()
        return self._pods

    def _stop(self, record: NodeRecord) -> None:
        """Drop the node as if its machine had vanished, without changing any object."""
        del self._running[record.name]
        self._addresses.give_back(record.machine.address)
        self.sync_loop.forget(record)

    # -- internals ---------------------------------------------------------------------------------------------------

    def _pick_first_beat_delay_s(self) -> float:
        """Return the delay of a node's first heartbeat, spread evenly over the period."""
        self._begun += 1
        slot = self._begun % _SLOTS
        part = (slot % 10 + slot // 10 * 10 / _SLOTS) / 10
        return self._config.renew_s * (part or 1.0)

    def _machine(self, capacity: dict[str, str], address: str, boot: str = "") -> NodeMachine:
        runtime = f"{HollowRuntime.name}://{HollowRuntime.version}"
        return NodeMachine(
            capacity=capacity,
            address=address,
            runtime=runtime,
            boot=boot,
            os_image="Sampan hollow node",
            declared_features=declared_features(self._config.feature_gates, has_mount_options=True),
        )

    def _address(self, node: Node) -> str:
        """Return the node's current address, or allocate one."""
        self._claim_address(node)
        return hollow_nodes.address_of(node) or self._addresses.take()

    def _claim_address(self, node: Node) -> None:
        if address := hollow_nodes.address_of(node):
            self._addresses.claim(address)

    def _should_run(self, node: Node | None) -> bool:
        if node is None or node.metadata.name in self._real_nodes:
            return False
        return hollow_nodes.is_hollow(node) and hollow_nodes.is_powered_on(node)

    def _is_settled(self, name: str) -> bool:
        return name in self._running or self._is_excluded(name)

    def _is_excluded(self, name: str) -> bool:
        """Whether the Node object exists, but the fleet does not run the node."""
        return (node := self._nodes.lister.get(name)) is not None and not self._should_run(node)

    def _is_same(self, node: Node | None, current: Node) -> bool:
        """Whether the node should still run, and is not a new node with the name of a deleted one."""
        return node is not None and self._should_run(node) and node.metadata.uid == current.metadata.uid

    def _make_recorder(self, client: Client) -> EventRecorder | None:
        if not self._config.has_events:
            return None
        return EventRecorder(client=client, clock=self._clock, component=COMPONENT, activity=self.activity)
