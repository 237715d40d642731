"""The kubelet of one real node.

It starts with what the machine has: its runtime, its static pods, its ports. The API server may become available later
and may go away temporarily. The node is registered and its pods are watched as soon as the API server is reachable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from sampan.api.types.core_v1 import Pod
from sampan.host.activity import Activity
from sampan.host.clock import Clock
from sampan.kubelet.agent.components import KubeletComponents, build_components
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.agent.services import build_services
from sampan.kubelet.cgroups import VERSION_1
from sampan.kubelet.records import PodQueue, Records
from sampan.machinery.client import Client
from sampan.machinery.control_loop.supervision import Supervision
from sampan.machinery.informer import InformerFactory
from sampan.machinery.telemetry.flight_recorder import FlightRecorder
from sampan.machinery.telemetry.health import HealthMetrics
from sampan.runtimes.contract import PodCallback, Runtime, RuntimeFailure

log = logging.getLogger(__name__)

MakeRuntime = Callable[[PodCallback], AbstractAsyncContextManager[Runtime]]


class Kubelet:
    """The kubelet of one real node. `run()` runs until cancelled. Pods keep running afterwards, unless the
    configuration says otherwise.
    """

    def __init__(self, components: KubeletComponents) -> None:
        services = components.services
        self._components, self._services = components, services
        self.config, self.client, self.clock = services.config, services.client, services.clock
        self.runtime, self.node, self.records = services.runtime, services.node, services.records
        self.volumes, self.shutdown = components.volumes, components.shutdown
        self.probe_metrics, self.recorder = components.probe_metrics, services.recorder
        self.metrics = services.metrics
        self.health_metrics = HealthMetrics()
        self.started = asyncio.Event()
        """Set once pods can run here, whether or not the API server is reachable."""
        self.ready = asyncio.Event()
        """Set once the node is registered and its pods are watched."""

    # -- accessors ---------------------------------------------------------------------------------------------------

    def pods(self) -> list[Pod]:
        """Return all pods of the node with their latest status."""
        return [record.pod_with_status for record in self.records.values()]

    def find(self, namespace: str, name: str, uid: str = "") -> Pod | None:
        for record in self.records.values():
            meta = record.pod.metadata
            if (meta.namespace, meta.name) == (namespace, name) and uid in ("", meta.uid):
                return record.pod_with_status
        return None

    # -- lifecycle ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        components = self._components
        async with components.killer, components.volumes.running():
            try:
                await self._run_components()
            finally:
                if self.config.ends_pods:
                    await asyncio.shield(self._remove_pods())

    async def _run_components(self) -> None:
        components, cgroups = self._components, self._services.cgroups
        if cgroups.is_usable and not cgroups.is_unified:
            self._services.warn_node("CgroupV1", VERSION_1)
        await components.static_pod_sources.start()
        async with asyncio.TaskGroup() as group:
            if components.pods_api is not None:
                group.create_task(components.pods_api.run())
            for work in (
                self._services.event_recorder.run(),
                components.static_pod_sources.run(),
                components.sync_loop.run(),
                components.statuses.run(),
                components.probes.run(),
                components.eviction.run(),
                components.image_collector.run(),
                components.shutdown.run(),
                components.plugins.run(),
                components.housekeeping.relist(),
                self._join(group),
            ):
                group.create_task(work)
            self.started.set()

    async def _join(self, group: asyncio.TaskGroup) -> None:
        """Register the node and watch its pods once the API server is reachable."""
        components = self._components
        updater = components.status_updater
        await updater.register()
        await components.api_pod_source.start(updater.on_node)
        for work in (
            components.mirrors.run(),
            updater.run(),
            updater.assign_pod_cidr(),
            components.housekeeping.run(),
        ):
            group.create_task(work)
        if components.pods_api is not None:
            components.pods_api.open()
        self.ready.set()

    async def _remove_pods(self) -> None:
        """Remove all pods, their volumes and cgroups."""
        for uid in sorted({*self.runtime.list_pod_uids(), *self.volumes.list_pod_uids()}):
            try:
                await self.runtime.remove_pod(uid)
                await self.volumes.unmount(uid)
            except (RuntimeFailure, OSError) as error:
                log.warning("cannot remove pod %s: %s", uid, error)
        await self._components.plugins.keep_only(())
        await asyncio.to_thread(self._services.cgroups.stop)


@asynccontextmanager
async def build_kubelet(
    *,
    config: AgentConfig,
    client: Client,
    clock: Clock,
    make_runtime: MakeRuntime,
    activity: Activity | None = None,
    recorder: FlightRecorder | None = None,
    supervision: Supervision | None = None,
) -> AsyncIterator[Kubelet]:
    """Build the kubelet of this machine, whose runtime is open within the context. It does nothing until `run()`."""
    for directory, mode in ((config.root, 0o750), (config.logs, 0o755)):
        await asyncio.to_thread(directory.mkdir, mode, parents=True, exist_ok=True)
    activity, records = activity or Activity(), Records()
    queue = PodQueue(records=records, clock=clock, activity=activity)
    async with (
        make_runtime(queue.request_sync) as runtime,
        InformerFactory(client=client, activity=activity, supervision=supervision) as informers,
    ):
        services = await build_services(
            config=config,
            client=client,
            clock=clock,
            activity=activity,
            recorder=recorder,
            records=records,
            queue=queue,
            informers=informers,
            runtime=runtime,
        )
        yield Kubelet(build_components(services))
