"""The kubelet of one real node, put together from its parts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace

from sampan.api.types.core_v1 import Node, NodeSystemInfo, Pod, Service
from sampan.api.types.node_v1 import RuntimeClass
from sampan.kubelet.agent import checks, pressure, registration
from sampan.kubelet.agent import machine as machines
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.agent.eviction import Eviction
from sampan.kubelet.agent.image_gc import ImageCollector
from sampan.kubelet.agent.messages import Messages
from sampan.kubelet.agent.node_images import node_images
from sampan.kubelet.agent.orphans import Orphans
from sampan.kubelet.agent.own_pods import OwnPods
from sampan.kubelet.agent.pod_provision import Parts, PodProvision
from sampan.kubelet.agent.pod_volumes import managed
from sampan.kubelet.agent.pressure import EVICTED
from sampan.kubelet.agent.pulling import ImageManager
from sampan.kubelet.agent.resizer import Resizer
from sampan.kubelet.agent.shutdown import NOT_READY, REJECTED, Shutdown
from sampan.kubelet.agent.sources import Sources
from sampan.kubelet.agent.static_pods import is_mirror
from sampan.kubelet.cgroups import PodGroups
from sampan.kubelet.environment.dns import DnsConfig, read_resolv_conf
from sampan.kubelet.environment.environment import Environment, EnvironmentConfig
from sampan.kubelet.heartbeat import Heartbeat
from sampan.kubelet.hooks import Hooks
from sampan.kubelet.node_status import READY, Machine, Said
from sampan.kubelet.objects import PodObjects
from sampan.kubelet.pod_events import PodEvents
from sampan.kubelet.pod_status import Verdict
from sampan.kubelet.probes import ProbeManager
from sampan.kubelet.records import NodeRecord, PodRecord, Records, Stage
from sampan.kubelet.status_manager import StatusManager
from sampan.kubelet.sync_loop import SyncLoop
from sampan.kubelet.volumes import VolumeManager
from sampan.machinery import errors
from sampan.machinery.activity import Activity
from sampan.machinery.client import Client, ConnectionFailed, Selection
from sampan.machinery.clock import Clock
from sampan.machinery.events import WARNING, EventRecorder
from sampan.machinery.flight_recorder import FlightRecorder
from sampan.machinery.informer import InformerFactory
from sampan.machinery.metrics import Metrics
from sampan.runtimes.contract import Runtime, RuntimeFailure, Told

log = logging.getLogger(__name__)

COMPONENT = "kubelet"
_NO_NETWORK = (
    "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
    "message:Network plugin returns error: cni plugin not initialized"
)
_RETRY_S = 1.0

MakeRuntime = Callable[[Told], AbstractAsyncContextManager[Runtime]]


class Kubelet:
    """`run()` until cancelled. Everything that it runs goes on afterwards, unless the config says otherwise."""

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
        )
        self.probe_metrics = Metrics()
        """Of the probes, which are told apart from all else."""
        self.groups = PodGroups(root=config.cgroup_root)
        self.ready = asyncio.Event()
        """Set once the node is registered and its pods are followed."""
        self._heartbeat = Heartbeat(clock=clock, config=config.kubelet, events=self.events)
        self._beats_now = asyncio.Event()
        self._own: OwnPods | None = None
        self._eviction: Eviction | None = None
        self._shutdown = Shutdown(config=config, records=self.records, sync_loop=self.sync_loop, clock=clock)
        self._runtime: Runtime | None = None
        self._node: NodeRecord | None = None

    # -- for those who look in ---------------------------------------------------------------------------------------

    @property
    def runtime(self) -> Runtime:
        assert self._runtime is not None, "the kubelet does not run"
        return self._runtime

    @property
    def node(self) -> NodeRecord:
        assert self._node is not None, "the kubelet does not run"
        return self._node

    def pods(self) -> list[Pod]:
        """All pods of the node as the kubelet has them, with what it last said of them."""
        return [_with_status(record) for record in self.records.values()]

    def find(self, namespace: str, name: str, uid: str = "") -> Pod | None:
        for record in self.records.values():
            meta = record.pod.metadata
            if (meta.namespace, meta.name) == (namespace, name) and uid in ("", meta.uid):
                return _with_status(record)
        return None

    # -- life --------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        config = self.config
        for folder, mode in ((config.root, 0o750), (config.logs, 0o755)):
            await asyncio.to_thread(folder.mkdir, mode, parents=True, exist_ok=True)
        async with AsyncExitStack() as stack:
            self._runtime = await stack.enter_async_context(self._make_runtime(self.look_at))
            facts = await asyncio.to_thread(machines.read_facts, config.root)
            machine = self._machine(facts)
            if config.has_cgroups_per_qos:
                await asyncio.to_thread(
                    self.groups.begin, cores=facts.cores, memory_bytes=self._pods_memory(facts.memory_bytes)
                )
            node = await self._register(machine)
            self._node = NodeRecord(
                name=config.name, client=self.client, runtime=self._runtime, machine=machine, node=node
            )
            if self.groups.is_usable and not self.groups.is_unified:
                self._tell_version_1()
            self._runtime.use_pod_cidrs(node.spec.podCIDRs or config.pod_cidrs)
            self._look_at_machine()
            await stack.enter_async_context(self.informers)
            await self._serve(facts)

    async def _serve(self, facts: machines.Facts) -> None:
        services, classes = self.informers.of(Service), self.informers.of(RuntimeClass)
        nodes = self.informers.of(Node, Selection(fields=f"metadata.name={self.config.name}"))
        probes = ProbeManager(
            runtime=self.runtime,
            clock=self.clock,
            told=self.look_at,
            event=lambda pod, container, reason, message: self.events.container(
                self.node, pod, container, WARNING, reason, message
            ),
            activity=self.activity,
            metrics=self.probe_metrics,
        )
        environment = Environment(
            config=self._environment_config(facts),
            objects=self.objects,
            services=services.lister,
            cgroup_parent=self.groups.parent,
            handler=lambda pod: self._handler(pod, classes.lister.get),
            warn=lambda pod, reason, message: self.events.pod(self.node, pod, WARNING, reason, message),
        )
        async with AsyncExitStack() as stack:
            volumes = managed(self)
            parts = Parts(
                runtime=self.runtime,
                environment=environment,
                images=self._images(),
                volumes=volumes,
                groups=self.groups,
                objects=self.objects,
                probes=probes,
                hooks=Hooks(runtime=self.runtime, clock=self.clock),
                messages=Messages(environment=environment, runtime=self.runtime),
                events=self.events,
                resizer=Resizer(
                    runtime=self.runtime, groups=self.groups, events=self.events, node_memory=facts.memory_bytes
                ),
                recorder=self.recorder,
            )
            collector = ImageCollector(
                config=self.config, runtime=self.runtime, clock=self.clock, in_use=self._images_in_use
            )
            self._eviction = self._make_eviction(collector)
            provision = PodProvision(config=self.config, parts=parts, clock=self.clock, refusal=self._refusal)
            stack.push_async_callback(provision.close)
            await stack.enter_async_context(volumes.running())
            self.node.provision = provision
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._event_recorder.run())
                    await self._heartbeat.register(self.node)
                    nodes.subscribe(self._on_node)
                    for each in (services, classes, nodes):
                        await each.synced.wait()
                    own = self._own = OwnPods(
                        node=self.node,
                        records=self.records,
                        sync_loop=self.sync_loop,
                        statuses=self.statuses,
                        clock=self.clock,
                    )
                    self.sync_loop.on_terminated = own.on_terminated
                    sources = Sources(config=self.config, clock=self.clock, update=own.update)
                    await self._follow_pods(volumes, sources)
                    for work in (
                        sources.run(),
                        own.run(),
                        self.sync_loop.run(),
                        self.statuses.run(),
                        probes.run(),
                        self._eviction.run(),
                        collector.run(),
                        self._beat(),
                        self._relist(),
                        self._keep_house(),
                    ):
                        group.create_task(work)
                    self.ready.set()
            finally:
                if self.config.ends_pods:
                    await asyncio.shield(self._end_pods(volumes))

    async def _follow_pods(self, volumes: VolumeManager, sources: Sources) -> None:
        pods = self.informers.of(Pod, Selection(fields=f"spec.nodeName={self.config.name}"))
        await pods.synced.wait()
        config = self.config
        orphans = Orphans(runtime=self.runtime, volumes=volumes, groups=self.groups, root=config.root, logs=config.logs)
        self._orphans = orphans
        await sources.begin()
        uids = {pod.metadata.uid for pod in pods.lister} | set(self.records)
        for uid in await orphans.remove(uids):
            log.info("pod %s is no longer wanted: removed", uid)
        pods.subscribe(self._on_pod)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        if not is_mirror(pod):
            self.sync_loop.iteration(self.node, old, new)
        elif self._own is not None:
            self._own.on_mirror(old, new)

    async def _end_pods(self, volumes: VolumeManager) -> None:
        """Nothing is left of what ran here."""
        for uid in sorted({*self.runtime.known_pods(), *volumes.known_pods()}):
            try:
                await self.runtime.remove_pod(uid)
                await volumes.unmount(uid)
            except RuntimeFailure as failure:
                log.warning("pod %s: %s", uid, failure.message)
        await asyncio.to_thread(self.groups.end)

    # -- changes -----------------------------------------------------------------------------------------------------

    def look_at(self, uid: str) -> None:
        """The runtime, a probe or a volume has news of the pod."""
        self.activity.step()
        if uid in self.records:
            self.sync_loop.dispatch_work(uid)

    def evict(self, pod: Pod, message: str, grace_s: float = 0.0) -> None:
        """It takes more than it may: it ends."""
        record = self.records.get(pod.metadata.uid)
        if record is not None and record.stage is Stage.SYNC and record.verdict is None:
            self.events.pod(self.node, pod, WARNING, EVICTED, message)
            record.verdict = Verdict(reason=EVICTED, message=message)
            record.stop_by = self.clock.now() + grace_s
            self.sync_loop.dispatch_work(record.uid)

    def _refusal(self, pod: Pod) -> Verdict | None:
        """Why the node does not take the pod, besides what the pod asks for."""
        if self._shutdown.is_under_way:
            return REJECTED
        under_pressure = self._eviction.types if self._eviction is not None else ()
        return pressure.refused(pod, under_pressure) or checks.refused(pod, self.config)

    async def shut_down(self) -> None:
        """The machine goes down: pods end in time, and the API server is told."""
        if self.config.shutdown_grace_s > 0 and self._node is not None:
            self.events.node(self.node, "Shutdown", "Shutdown manager detected shutdown event")
            work = asyncio.ensure_future(self._shutdown.run())
            self._beats_now.set()
            await work

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            return
        record = self.node
        record.is_changed = record.is_changed or new.status != record.node.status
        record.node = new
        self.runtime.use_pod_cidrs(new.spec.podCIDRs or self.config.pod_cidrs)
        if self._conditions(new) != record.machine.conditions:
            self._beats_now.set()

    # -- work that comes back ----------------------------------------------------------------------------------------

    async def _register(self, machine: Machine) -> Node:
        """As often as it takes."""
        while True:
            try:
                return await registration.register(self.client, self.config, machine, self.clock.now())
            except (errors.ApiError, ConnectionFailed) as error:
                log.warning("node %s cannot be registered: %s; again in %g s", self.config.name, error, _RETRY_S)
                await self.clock.sleep(_RETRY_S)

    async def _beat(self) -> None:
        while True:
            await self._pause(self.config.kubelet.renew_s)
            self._look_at_machine()
            try:
                await self._look_at_images()
                await self._heartbeat.beat(self.node)
            except (errors.ApiError, ConnectionFailed) as error:
                log.warning("node %s: heartbeat: %s", self.config.name, error)

    async def _pause(self, seconds: float) -> None:
        """Until the next heartbeat is due, or something is to be told at once."""
        timer, soon = asyncio.ensure_future(self.clock.sleep(seconds)), asyncio.ensure_future(self._beats_now.wait())
        try:
            await asyncio.wait((timer, soon), return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            soon.cancel()
        self._beats_now.clear()

    def _look_at_machine(self) -> None:
        record = self.node
        conditions = self._conditions(record.node)
        if conditions != record.machine.conditions:
            record.machine = replace(record.machine, conditions=conditions)
            record.is_changed = True

    async def _look_at_images(self) -> None:
        record = self.node
        try:
            images = node_images(await self.runtime.images())
        except RuntimeFailure as failure:
            log.warning("node %s: its images cannot be told: %s", self.config.name, failure.message)
            return
        if images != record.machine.images:
            record.machine = replace(record.machine, images=images)
            record.is_changed = True

    async def _relist(self) -> None:
        """Look at every pod although nobody said that anything had changed."""
        while True:
            await self.clock.sleep(self.config.relist_s)
            for record in list(self.records.values()):
                if record.stage is not Stage.TERMINATED:
                    self.sync_loop.dispatch_work(record.uid)

    async def _keep_house(self) -> None:
        while True:
            await self.clock.sleep(self.config.relist_s)
            await self._orphans.remove(set(self.records))

    # -- parts -------------------------------------------------------------------------------------------------------

    def _machine(self, facts: machines.Facts) -> Machine:
        config, runtime = self.config, self.runtime
        addresses = list(config.node_ips) or machines.own_addresses()
        capacity = machines.capacity(facts, max_pods=config.max_pods, pods_per_core=config.pods_per_core)
        reserved = (config.kube_reserved, config.system_reserved)
        version = f"{runtime.name}://{runtime.version}"
        return Machine(
            capacity=capacity,
            allocatable=machines.allocatable(capacity, reserved, config.eviction_hard),
            address=addresses[0],
            more_addresses=addresses[1:],
            runtime=version,
            port=config.port,
            info=replace_info(facts, version),
            conditions=self._conditions(None),
        )

    def _conditions(self, node: Node | None) -> dict[str, Said]:
        """Those that are not as they should be."""
        if self._shutdown.is_under_way:
            return dict(NOT_READY)
        found = self._eviction.conditions() if self._eviction is not None else {}
        has_range = self.config.pod_cidrs or (node is not None and node.spec.podCIDRs)
        if self.config.needs_pod_cidr and not has_range:
            found[READY] = ("False", "KubeletNotReady", _NO_NETWORK)
        return found

    def _make_eviction(self, collector: ImageCollector) -> Eviction:
        return Eviction(
            config=self.config,
            runtime=self.runtime,
            clock=self.clock,
            pods=lambda: [each.pod for each in self.records.values() if each.stage is Stage.SYNC],
            evict=self.evict,
            tell=lambda text: self.events.node(self.node, "EvictionThresholdMet", text, WARNING),
            make_room=collector.remove_unused,
        )

    def _images_in_use(self) -> set[str]:
        reports = [self.runtime.pod_report(record.pod) for record in self.records.values()]
        return {name for report in reports for each in report.containers for name in (each.image, each.image_ref)}

    def _pods_memory(self, memory_bytes: int) -> int:
        """What pods together may have: not what is reserved."""
        from sampan.api.quantity import parse

        reserved = (self.config.kube_reserved, self.config.system_reserved)
        return memory_bytes - sum(int(parse(each["memory"]).value()) for each in reserved if "memory" in each)

    def _environment_config(self, facts: machines.Facts) -> EnvironmentConfig:
        config, machine = self.config, self.node.machine
        try:
            resolv = read_resolv_conf(config.resolv_conf.read_text())
        except OSError:
            resolv = read_resolv_conf("")
        return EnvironmentConfig(
            root=config.root,
            logs=config.logs,
            node_name=config.name,
            host_ips=(machine.address, *machine.more_addresses),
            node_memory=facts.memory_bytes,
            allocatable=machine.allocatable or {},
            dns=DnsConfig(node=resolv, cluster_servers=config.cluster_dns, cluster_domain=config.cluster_domain),
        )

    def _images(self) -> ImageManager:
        config = self.config
        return ImageManager(
            runtime=self.runtime,
            objects=self.objects,
            events=self.events,
            clock=self.clock,
            at_a_time=1 if config.serializes_pulls else config.max_parallel_pulls,
        )

    def _handler(self, pod: Pod, find: Callable[[str], RuntimeClass | None]) -> str:
        name = pod.spec.runtimeClassName
        if not name:
            return ""
        found = find(name)
        if found is None:
            text = f'failed to get sandbox runtime: runtimeclass.node.k8s.io "{name}" not found'
            raise RuntimeFailure("FailedCreatePodSandBox", text)
        return found.handler

    def _tell_version_1(self) -> None:
        from sampan.kubelet.cgroups.pod_groups import VERSION_1

        self.events.node(self.node, "CgroupV1", VERSION_1, WARNING)


def replace_info(facts: machines.Facts, runtime: str) -> NodeSystemInfo:
    import msgspec

    return msgspec.structs.replace(facts.info, containerRuntimeVersion=runtime)


def _with_status(record: PodRecord) -> Pod:
    import msgspec

    return msgspec.structs.replace(record.pod, status=record.status) if record.said is not None else record.pod


__all__ = ["COMPONENT", "Kubelet", "MakeRuntime"]
