"""The Node object of a real node: registered, and told how its machine is, for as long as the kubelet runs."""

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
"""How long a node waits for a range for its pods before it takes one itself."""

Faults = Callable[[], Mapping[str, Said]]
"""Conditions that are not as they should be."""


class NodeKeeper:
    """Until `register` is done the record has the node as the kubelet wants it, which nobody else has seen."""

    def __init__(self, *, config: AgentConfig, record: NodeRecord, clock: Clock, events: PodEvents) -> None:
        self._config, self._record, self._clock = config, record, clock
        self.faults: Faults = dict
        """What others find wrong."""
        self._heartbeat = Heartbeat(clock=clock, config=config.kubelet, events=events)
        self._now = asyncio.Event()
        self._capacity = record.machine.capacity, record.machine.allocatable or record.machine.capacity
        """Of the machine itself."""
        self.plugins: NodePlugins | None = None
        """What more there is, of devices."""
        self._kept = pod_ranges.kept(config.root)
        """The ranges that the node had when it was last heard of."""
        self._used: list[str] = []
        """Those that the runtime was last told."""
        self._runtime = RuntimeStatus()
        """As the runtime last said that it is."""
        self.use(record.node)

    async def register(self) -> None:
        """As often as it takes: the API server may come long after the node."""
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
        """Where nobody gives the node a range for its pods, it takes one itself, and says which."""
        config, record = self._config, self._record
        wanted = self._kept or list(config.own_pod_cidrs)
        if not config.needs_pod_cidr or config.pod_cidrs or not wanted:
            return
        await self._clock.sleep(_RANGE_PATIENCE_S)
        while not record.node.spec.podCIDRs:
            try:
                patch = {"spec": {"podCIDR": wanted[0], "podCIDRs": wanted}}
                self.use(await record.client.of(Node).patch(config.name, patch))
                log.info("node %s: no pod CIDR was allocated, using %s", config.name, wanted[0])
            except (errors.ApiError, ConnectionFailed) as error:
                log.warning("node %s: cannot set its pod CIDR: %s", config.name, error)
                await self._clock.sleep(_RANGE_PATIENCE_S)
        self.beat_now()

    async def run(self) -> None:
        """Heartbeats, until cancelled: the lease and the status each in its own time."""
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
        """Something is to be told at once."""
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
        """The node is like this now: pods have their addresses from its ranges."""
        self._record.node = node
        if node.spec.podCIDRs and node.spec.podCIDRs != self._kept:
            self._kept = list(node.spec.podCIDRs)
            try:
                pod_ranges.keep(self._config.root, self._kept)
            except OSError as fault:
                log.error("node %s: cannot save its pod CIDR: %s", self._config.name, fault)
        before, self._used = self._used, self._ranges()
        self._record.runtime.use_pod_cidrs(self._used)
        self.look()
        if self._used != before and self._runtime.faults:
            self.beat_now()  # perhaps that is all that the runtime lacked

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
        """Those that are not as they should be."""
        found = dict(self.faults())
        if self._config.needs_pod_cidr and not self._ranges():
            found.setdefault(READY, runtime_status.not_ready([_NO_NETWORK]))
        if self._runtime.faults:
            found.setdefault(READY, runtime_status.not_ready(self._runtime.faults))
        return found

    # -- parts -------------------------------------------------------------------------------------------------------

    def _ranges(self) -> list[str]:
        return list(self._record.node.spec.podCIDRs or self._config.pod_cidrs or self._kept)

    async def _pause(self, seconds: float) -> None:
        """Until the next heartbeat is due, or something is to be told at once."""
        with contextlib.suppress(GivenUp):
            await unless(self._now.wait(), self._clock.sleep(seconds))
        self._now.clear()

    async def _look_at_runtime(self) -> None:
        record, status = self._record, await self._asked_runtime()
        self._runtime = status
        if status.faults and not status.handlers:
            return  # what it could do before it can do again when it is back
        handlers, features = runtime_status.handlers(status), runtime_status.features(status)
        if (handlers, features) != (record.machine.handlers, record.machine.features):
            record.machine = replace(record.machine, handlers=handlers, features=features)
            record.is_changed = True

    async def _asked_runtime(self) -> RuntimeStatus:
        try:
            return await self._record.runtime.status()
        except Exception as fault:  # whatever is the matter with it, the node goes on, and says so
            log.exception("node %s: cannot read the status of the container runtime", self._config.name)
            return RuntimeStatus(faults=[f"container runtime is down: {fault}"])

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


__all__ = ["NodeKeeper"]
