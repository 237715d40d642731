"""The kubelet of one real node, assembled from its parts.

It starts with what is on the machine: its runtime, its static pods, its ports. The API server may become available
later and may go away temporarily; the node is registered and its pods are watched as soon as it is reachable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import msgspec

from sampan.api.types.core_v1 import Pod, Service
from sampan.api.types.node_v1 import RuntimeClass
from sampan.kubelet.agent import machine as machines
from sampan.kubelet.agent import making
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.agent.following import Following
from sampan.kubelet.agent.guard import Guard
from sampan.kubelet.agent.housekeeping import Housekeeping
from sampan.kubelet.agent.messages import Messages
from sampan.kubelet.agent.node_keeper import NodeKeeper
from sampan.kubelet.agent.node_plugins import make_plugins
from sampan.kubelet.agent.orphans import Orphans
from sampan.kubelet.agent.own_pods import OwnPods
from sampan.kubelet.agent.pod_provision import Parts, PodProvision
from sampan.kubelet.agent.pod_volumes import managed
from sampan.kubelet.agent.registration import wanted_node
from sampan.kubelet.agent.resizer import Resizer
from sampan.kubelet.agent.sources import Sources
from sampan.kubelet.agent.steps import Steps
from sampan.kubelet.agent.stopping import Stopper
from sampan.kubelet.cgroups import PodCgroups
from sampan.kubelet.cgroups.pod_cgroups import VERSION_1
from sampan.kubelet.hooks import Hooks
from sampan.kubelet.objects import PodObjects
from sampan.kubelet.pod_events import PodEvents
from sampan.kubelet.records import NodeRecord, PodRecord, Records
from sampan.kubelet.status_manager import StatusManager
from sampan.kubelet.sync_loop import SyncLoop
from sampan.kubelet.volumes import VolumeManager
from sampan.machinery.activity import Activity
from sampan.machinery.client import Client
from sampan.machinery.clock import Clock
from sampan.machinery.events import EventRecorder
from sampan.machinery.flight_recorder import FlightRecorder
from sampan.machinery.informer import InformerFactory
from sampan.machinery.metrics import Metrics
from sampan.runtimes.contract import Runtime, RuntimeFailure, Told

log = logging.getLogger(__name__)

COMPONENT = "kubelet"

MakeRuntime = Callable[[Told], AbstractAsyncContextManager[Runtime]]


class Kubelet:
    """`run()` runs until cancelled. Pods keep running afterwards, unless the configuration says otherwise."""

    def __init__(
        self,
        *,
        config: AgentConfig,
        client: Client,
        clock: Clock,
        make_runtime: MakeRuntime,
        activity: Activity | None = None,
        recorder: FlightRecorder | None = None,
    ) -> None:
        self.config, self.client, self.clock = config, client, clock
        self._make_runtime = make_runtime
        self.activity = activity or Activity()
        self.recorder = recorder
        self.records: Records = Records()
        self.informers = InformerFactory(client=client, activity=self.activity)
        self.objects = PodObjects(informers=self.informers)
        self._event_recorder = EventRecorder(
            client=client, clock=clock, component=COMPONENT, host=config.name, activity=self.activity
        )
        self.events = PodEvents(self._event_recorder)
        workers = config.kubelet.workers
        self.statuses = StatusManager(records=self.records, clock=clock, activity=self.activity, workers=workers)
        self.sync_loop = SyncLoop(
            records=self.records,
            statuses=self.statuses,
            events=self.events,
            clock=clock,
            activity=self.activity,
            workers=workers,
            longest_pause_s=config.kubelet.longest_pause_s,
        )
        self.probe_metrics = Metrics()
        """Metrics of the probes, which have an endpoint of their own."""
        self.groups = PodCgroups(root=config.cgroup_root, pids=config.pod_pids)
        self.begun = asyncio.Event()
        """Set once pods can run here, whether or not the API server is reachable."""
        self.ready = asyncio.Event()
        """Set once the node is registered and its pods are watched."""
        self._runtime: Runtime | None = None
        self._node: NodeRecord | None = None
        self._guard: Guard | None = None
        self._volumes: VolumeManager | None = None

    # -- accessors ---------------------------------------------------------------------------------------------------

    @property
    def runtime(self) -> Runtime:
        assert self._runtime is not None, "the kubelet does not run"
        return self._runtime

    @property
    def node(self) -> NodeRecord:
        assert self._node is not None, "the kubelet does not run"
        return self._node

    @property
    def guard(self) -> Guard:
        assert self._guard is not None, "the kubelet does not run"
        return self._guard

    @property
    def volumes(self) -> VolumeManager:
        assert self._volumes is not None, "the kubelet does not run"
        return self._volumes

    def pods(self) -> list[Pod]:
        """Return all pods of the node with their latest status."""
        return [_with_status(record) for record in self.records.values()]

    def find(self, namespace: str, name: str, uid: str = "") -> Pod | None:
        for record in self.records.values():
            meta = record.pod.metadata
            if (meta.namespace, meta.name) == (namespace, name) and uid in ("", meta.uid):
                return _with_status(record)
        return None

    # -- lifecycle ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        config = self.config
        for directory, mode in ((config.root, 0o750), (config.logs, 0o755)):
            await asyncio.to_thread(directory.mkdir, mode, parents=True, exist_ok=True)
        async with AsyncExitStack() as stack:
            self._runtime = await stack.enter_async_context(self._make_runtime(self.look_at))
            facts = await asyncio.to_thread(machines.read_facts, config.root)
            await self._make_groups(facts)
            machine = making.machine_of(config, facts, self._runtime)
            node = wanted_node(config, machine, self.clock.now())
            self._node = NodeRecord(
                name=config.name, client=self.client, runtime=self._runtime, machine=machine, node=node
            )
            keeper = NodeKeeper(config=config, record=self._node, clock=self.clock, events=self.events)
            self._guard = Guard(self, tell_node=keeper.beat_now)
            keeper.faults = self._guard.faults
            await stack.enter_async_context(self.informers)
            self._volumes = volumes = managed(self)
            self._plugins = keeper.plugins = make_plugins(self, volumes, keeper.beat_now)
            await self._begin(stack, facts, volumes)
            await stack.enter_async_context(volumes.running())
            try:
                await self._work(volumes, keeper)
            finally:
                if config.ends_pods:
                    await asyncio.shield(self._end_pods(volumes))

    async def _make_groups(self, facts: machines.Facts) -> None:
        if not self.config.has_cgroups_per_qos:
            return
        memory = making.pods_memory(self.config, facts.memory_bytes)
        await asyncio.to_thread(self.groups.start, cores=facts.cores, memory_bytes=memory)

    async def _begin(self, stack: AsyncExitStack, facts: machines.Facts, volumes: VolumeManager) -> None:
        """Create everything that is needed to run pods."""
        services, classes = self.informers.of(Service), self.informers.of(RuntimeClass)
        environment = making.make_environment(self, facts, services.lister, classes.lister)
        self._own = OwnPods(
            node=self.node,
            records=self.records,
            sync_loop=self.sync_loop,
            statuses=self.statuses,
            clock=self.clock,
        )
        self.sync_loop.on_terminated = self._own.on_terminated
        self._probes = making.make_probes(self)
        hooks = Hooks(runtime=self.runtime, clock=self.clock)
        steps = Steps(recorder=self.recorder, node=self.config.name)
        stopper = Stopper(runtime=self.runtime, hooks=hooks, events=self.events, steps=steps, clock=self.clock)
        parts = Parts(
            runtime=self.runtime,
            environment=environment,
            images=making.make_images(self),
            volumes=volumes,
            groups=self.groups,
            objects=self.objects,
            probes=self._probes,
            hooks=hooks,
            messages=Messages(environment=environment, runtime=self.runtime),
            events=self.events,
            resizer=Resizer(
                runtime=self.runtime, groups=self.groups, events=self.events, node_memory=facts.memory_bytes
            ),
            plugins=self._plugins,
            own_pods=self._own,
            stopper=await stack.enter_async_context(stopper),
            steps=steps,
        )
        self.node.provision = PodProvision(config=self.config, parts=parts, refusal=self.guard.refusal)

    async def _work(self, volumes: VolumeManager, keeper: NodeKeeper) -> None:
        config = self.config
        sources = Sources(config=config, clock=self.clock, update=self._own.update)
        house = Housekeeping(
            config=config,
            records=self.records,
            sync_loop=self.sync_loop,
            clock=self.clock,
            orphans=Orphans(
                runtime=self.runtime,
                volumes=volumes,
                groups=self.groups,
                plugins=self._plugins,
                root=config.root,
                logs=config.logs,
            ),
            is_complete=lambda: sources.are_known,
        )
        if self.groups.is_usable and not self.groups.is_unified:
            self.guard.warn("CgroupV1", VERSION_1)
        await sources.begin()
        async with asyncio.TaskGroup() as group:
            for work in (
                self._event_recorder.run(),
                sources.run(),
                self.sync_loop.run(),
                self.statuses.run(),
                self._probes.run(),
                self.guard.run(),
                self._plugins.run(),
                house.relist(),
                self._join(group, keeper, house),
            ):
                group.create_task(work)
            self.begun.set()

    async def _join(self, group: asyncio.TaskGroup, keeper: NodeKeeper, house: Housekeeping) -> None:
        """Register the node and watch its pods once the API server is reachable."""
        await keeper.register()
        following = Following(
            node=self.node,
            sync_loop=self.sync_loop,
            own=self._own,
            house=house,
            informers=self.informers,
        )
        await following.begin(keeper.on_node)
        for work in (self._own.run(), keeper.run(), keeper.settle_range(), house.run()):
            group.create_task(work)
        self.ready.set()

    async def _end_pods(self, volumes: VolumeManager) -> None:
        """Remove all pods, their volumes and cgroups."""
        for uid in sorted({*self.runtime.known_pods(), *volumes.known_pods()}):
            try:
                await self.runtime.remove_pod(uid)
                await volumes.unmount(uid)
            except (RuntimeFailure, OSError) as error:
                log.warning("cannot remove pod %s: %s", uid, error)
        await self._plugins.keep_only(())
        await asyncio.to_thread(self.groups.stop)

    # -- changes -----------------------------------------------------------------------------------------------------

    def look_at(self, uid: str) -> None:
        """Sync the pod because the runtime, a probe or a volume reports a change."""
        self.activity.step()
        if uid in self.records:
            self.sync_loop.dispatch_work(uid)


def _with_status(record: PodRecord) -> Pod:
    return msgspec.structs.replace(record.pod, status=record.status) if record.said is not None else record.pod
