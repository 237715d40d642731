"""Registers the Node object of a real node and keeps its lease and status current while the kubelet runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sampan.api.types.core_v1 import Node
from sampan.kubelet.agent import pod_ranges, registration, runtime_status
from sampan.kubelet.agent.node_images import node_images
from sampan.kubelet.heartbeat import Heartbeat
from sampan.kubelet.node_status import READY, Said
from sampan.kubelet.racing import GivenUp, unless
from sampan.kubelet.records import NodeRecord
from sampan.machinery import errors
from sampan.machinery.client import ConnectionFailed
from sampan.runtimes.contract import RuntimeFailure, RuntimeStatus

if TYPE_CHECKING:
    from sampan.kubelet.agent.config import AgentConfig
    from sampan.kubelet.agent.node_plugins import NodePlugins
    from sampan.kubelet.pod_events import PodEvents
    from sampan.machinery.clock import Clock

log = logging.getLogger(__name__)

_NO_NETWORK = (
    "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
    "message:Network plugin returns error: cni plugin not initialized"
)
_RETRY_S = 1.0
_RANGE_PATIENCE_S = 5.0
"""How long a node waits for the allocation of a pod CIDR before it assigns one to itself."""

Faults = Callable[[], Mapping[str, Said]]
"""Conditions that deviate from those of a healthy node, by type."""


class NodeKeeper:
    """Until `register` completes, the record contains the Node object as the kubelet wants it, which is not on the API
    server.
    """

    def __init__(self, *, config: AgentConfig, record: NodeRecord, clock: Clock, events: PodEvents) -> None:
        self._config, self._record, self._clock = config, record, clock
        self.faults: Faults = dict
        """Conditions that other parts of the kubelet report."""
        self._heartbeat = Heartbeat(clock=clock, config=config.kubelet, events=events)
        self._now = asyncio.Event()
        self._capacity = record.machine.capacity, record.machine.allocatable or record.machine.capacity
        """Capacity and allocatable resources of the machine itself."""
        self.plugins: NodePlugins | None = None
        """Source of the devices that extend the capacity."""
        self._kept = pod_ranges.kept(config.root)
        """Pod CIDRs of the node as last seen."""
        self._used: list[str] = []
        """Pod CIDRs last passed to the runtime."""
        self._runtime = RuntimeStatus()
        """The last status of the runtime."""
        self.use(record.node)

    async def register(self) -> None:
        """Register the node, retrying until the API server accepts it."""
        config, record = self._config, self._record
        await self._look_at_runtime()
        while True:
            try:
                node = await registration.register(record.client, config, record.machine, self._clock.now())
                self.use(node)
                await self._heartbeat.register(record)
                return
            except (errors.ApiError, ConnectionFailed) as error:
                log.warning("cannot register node %s: %s; retrying in %g s", config.name, error, _RETRY_S)
                await self._clock.sleep(_RETRY_S)

    async def settle_range(self) -> None:
        """Assign a pod CIDR to the node if no controller allocates one."""
        config, record = self._config, self._record
        pod_cidrs = self._kept or list(config.own_pod_cidrs)
        if not config.needs_pod_cidr or config.pod_cidrs or not pod_cidrs:
            return
        await self._clock.sleep(_RANGE_PATIENCE_S)
        while not record.node.spec.podCIDRs:
            try:
                patch = {"spec": {"podCIDR": pod_cidrs[0], "podCIDRs": pod_cidrs}}
                self.use(await record.client.of(Node).patch(config.name, patch))
                log.info("node %s: no pod CIDR was allocated, using %s", config.name, pod_cidrs[0])
            except (errors.ApiError, ConnectionFailed) as error:
                log.warning("node %s: cannot set its pod CIDR: %s", config.name, error)
                await self._clock.sleep(_RANGE_PATIENCE_S)
        self.beat_now()

    async def run(self) -> None:
        """Renew the lease and update the status independently of each other, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_lease())
            group.create_task(self._keep_status())

    async def _keep_lease(self) -> None:
        while True:
            await self._clock.sleep(self._config.kubelet.renew_s)
            try:
                await self._heartbeat.renew(self._record)
            except (errors.ApiError, ConnectionFailed) as error:
                log.warning("node %s: cannot renew its lease: %s", self._config.name, error)

    async def _keep_status(self) -> None:
        while True:
            await self._pause(self._config.kubelet.status_s)
            await self._look_at_runtime()
            self.look()
            try:
                await self._look_at_images()
                await self._heartbeat.report(self._record)
            except (errors.ApiError, ConnectionFailed) as error:
                log.warning("node %s: cannot update its status: %s", self._config.name, error)

    def beat_now(self) -> None:
        """Write the status without waiting for the next period."""
        self._now.set()

    def on_node(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            return
        record, before = self._record, self._record.machine.conditions
        record.is_changed = record.is_changed or new.status != record.node.status
        self.use(new)
        if record.machine.conditions != before:
            self.beat_now()

    def use(self, node: Node) -> None:
        """Set the current Node object. Its pod CIDRs are saved on disk and passed to the runtime."""
        self._record.node = node
        if node.spec.podCIDRs and node.spec.podCIDRs != self._kept:
            self._kept = list(node.spec.podCIDRs)
            try:
                pod_ranges.keep(self._config.root, self._kept)
            except OSError as error:
                log.error("node %s: cannot save its pod CIDR: %s", self._config.name, error)
        before, self._used = self._used, self._ranges()
        self._record.runtime.use_pod_cidrs(self._used)
        self.look()
        if self._used != before and self._runtime.faults:
            self.beat_now()  # A missing pod CIDR may have been all that the runtime lacked.

    def look(self) -> None:
        record, conditions = self._record, self.conditions()
        if conditions != record.machine.conditions:
            record.machine = replace(record.machine, conditions=conditions)
            record.is_changed = True
        self._look_at_devices()

    def _look_at_devices(self) -> None:
        if self.plugins is None:
            return
        record, (own, for_pods) = self._record, self._capacity
        more, more_for_pods = self.plugins.capacity()
        capacity, allocatable = {**own, **more}, {**for_pods, **more_for_pods}
        if (record.machine.capacity, record.machine.allocatable) != (capacity, allocatable):
            record.machine = replace(record.machine, capacity=capacity, allocatable=allocatable)
            record.is_changed = True

    def conditions(self) -> dict[str, Said]:
        """Return the conditions that deviate from those of a healthy node."""
        conditions = dict(self.faults())
        if self._config.needs_pod_cidr and not self._ranges():
            conditions.setdefault(READY, runtime_status.not_ready([_NO_NETWORK]))
        if self._runtime.faults:
            conditions.setdefault(READY, runtime_status.not_ready(self._runtime.faults))
        return conditions

    # -- internals ---------------------------------------------------------------------------------------------------

    def _ranges(self) -> list[str]:
        return list(self._record.node.spec.podCIDRs or self._config.pod_cidrs or self._kept)

    async def _pause(self, seconds: float) -> None:
        """Wait for the next heartbeat or until `beat_now` is called."""
        with contextlib.suppress(GivenUp):
            await unless(self._now.wait(), self._clock.sleep(seconds))
        self._now.clear()

    async def _look_at_runtime(self) -> None:
        record, status = self._record, await self._asked_runtime()
        self._runtime = status
        if status.faults and not status.handlers:
            return  # Keep the handlers and features of the runtime while it is down.
        handlers, features = runtime_status.handlers(status), runtime_status.features(status)
        if (handlers, features) != (record.machine.handlers, record.machine.features):
            record.machine = replace(record.machine, handlers=handlers, features=features)
            record.is_changed = True

    async def _asked_runtime(self) -> RuntimeStatus:
        try:
            return await self._record.runtime.status()
        except Exception as error:  # Whatever the error, the node keeps running and reports it.
            log.exception("node %s: cannot read the status of the container runtime", self._config.name)
            return RuntimeStatus(faults=[f"container runtime is down: {error}"])

    async def _look_at_images(self) -> None:
        record = self._record
        try:
            images = node_images(await record.runtime.images(), self._config.max_told_images)
        except RuntimeFailure as failure:
            log.warning("node %s: cannot list images: %s", self._config.name, failure.message)
            return
        if images != record.machine.images:
            record.machine = replace(record.machine, images=images)
            record.is_changed = True
