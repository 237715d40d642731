"""Rejects pods at admission, evicts pods under pressure, and terminates all pods on node shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from sampan.api.types.core_v1 import Pod
from sampan.kubelet.agent import checks, pressure
from sampan.kubelet.agent import machine as machines
from sampan.kubelet.agent.container_gc import ContainerCollector
from sampan.kubelet.agent.eviction import Eviction
from sampan.kubelet.agent.image_access import PulledImages
from sampan.kubelet.agent.image_gc import ImageCollector
from sampan.kubelet.agent.logind import ShutdownWatch
from sampan.kubelet.agent.observing import has_own_disk
from sampan.kubelet.agent.shutdown import NOT_READY, REJECTED, Shutdown
from sampan.kubelet.critical import is_critical
from sampan.kubelet.node_status import Said
from sampan.kubelet.pod_status import Verdict
from sampan.kubelet.records import Stage
from sampan.machinery.events import WARNING

if TYPE_CHECKING:
    from sampan.kubelet.agent.kubelet import Kubelet


class Guard:
    """`run()` monitors the available resources and the shutdown announcements of the machine."""

    def __init__(self, kubelet: Kubelet, *, tell_node: Callable[[], None]) -> None:
        """`tell_node` is called when the node status must be written immediately."""
        config, clock, records = kubelet.config, kubelet.clock, kubelet.records
        self._kubelet, self._tell_node = kubelet, tell_node
        self._has_apparmor = machines.has_apparmor()
        self._shutdown = Shutdown(config=config, records=records, sync_loop=kubelet.sync_loop, clock=clock)
        self._images = ImageCollector(
            config=config,
            runtime=kubelet.runtime,
            clock=clock,
            in_use=self._images_in_use,
            tell=self.warn,
            forget=PulledImages(config.root).prune,
        )
        self._containers = ContainerCollector(runtime=kubelet.runtime, records=records)
        self._eviction = Eviction(
            config=config,
            runtime=kubelet.runtime,
            clock=clock,
            pods=lambda: [pod_record.pod for pod_record in records.values() if pod_record.stage is Stage.SYNC],
            volumes=lambda pod: kubelet.volumes.usage(pod),
            evict=self.evict,
            tell=partial(self.warn, "EvictionThresholdMet"),
            make_room=self._make_room,
            changed=tell_node,
            has_ended=lambda pod: (record := records.get(pod.metadata.uid)) is None or record.is_finished,
        )
        self.shutdown_watch = ShutdownWatch(
            wanted_s=self._shutdown.grace_s,
            clock=clock,
            on_shutdown=self._shut_down,
            on_cancel=self._on_shutdown_cancelled,
            address=config.system_bus,
            folder=config.logind_folder,
        )

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._eviction.run())
            group.create_task(self._images.run())
            if self._shutdown.grace_s > 0:
                group.create_task(self.shutdown_watch.run())

    def warn(self, reason: str, message: str) -> None:
        self._kubelet.events.node(self._kubelet.node, reason, message, WARNING)

    def faults(self) -> dict[str, Said]:
        """Return the node conditions that deviate from those of a healthy node."""
        return dict(NOT_READY) if self._shutdown.is_under_way else self._eviction.conditions()

    # -- admission and eviction --------------------------------------------------------------------------------------

    def refusal(self, pod: Pod) -> Verdict | None:
        """Return why the node rejects the pod, apart from its resource requests, or None."""
        if self._shutdown.is_under_way:
            return REJECTED
        features = self._kubelet.node.node.status.features
        return pressure.refused(pod, self._eviction.types) or checks.refused(
            pod,
            self._kubelet.config,
            has_apparmor=self._has_apparmor,
            has_strict_groups=features is None or features.supplementalGroupsPolicy is not False,
        )

    def evict(self, pod: Pod, verdict: Verdict, grace_s: float) -> None:
        """Evict the pod, unless it is critical or already terminating."""
        kubelet = self._kubelet
        record = kubelet.records.get(pod.metadata.uid)
        if is_critical(pod) or record is None or record.stage is not Stage.SYNC or record.verdict is not None:
            return
        event = verdict.reason, verdict.message, verdict.annotations
        kubelet.events.pod(kubelet.node, pod, WARNING, *event)
        kubelet.sync_loop.end_pod(record, verdict, kubelet.clock.monotonic() + grace_s)

    # -- reclaiming disk space ---------------------------------------------------------------------------------------

    async def _make_room(self, signal: str) -> None:
        """Free disk space. If images have their own file system, removing them helps only when that one is full."""
        config = self._kubelet.config
        if signal.startswith("imagefs") or not has_own_disk(config.root, config.images):
            await self._containers.remove_unused()
            await self._images.remove_unused()

    def _images_in_use(self) -> set[str]:
        reports = [self._kubelet.runtime.pod_report(record.pod) for record in self._kubelet.records.values()]
        return {
            name
            for report in reports
            for container in report.containers
            for name in (container.image, container.image_ref)
        }

    # -- shutdown ----------------------------------------------------------------------------------------------------

    async def _shut_down(self) -> None:
        """Terminate the pods within their grace periods, and report the node as not ready."""
        self._tell("Shutdown manager detected shutdown event")
        self._shutdown.begin()
        self._tell_node()
        await self._shutdown.run()

    def _on_shutdown_cancelled(self) -> None:
        self._tell("Shutdown manager detected shutdown cancellation")
        self._shutdown.cancel()
        self._tell_node()

    def _tell(self, message: str) -> None:
        self._kubelet.events.node(self._kubelet.node, "Shutdown", message)
