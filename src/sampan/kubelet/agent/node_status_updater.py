"""Registers the Node object of a real node and keeps its lease and status current while the kubelet runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sampan.api.semantics.taints import UNSCHEDULABLE
from sampan.api.types.core_v1 import (
    ContainerImage,
    Node,
    NodeFeatures,
    NodeRuntimeHandler,
    NodeRuntimeHandlerFeatures,
    NodeSpec,
    Taint,
)
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.host.clock import Clock
from sampan.host.durable_files import write_durably
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.cancellation import WorkCancelled, run_until
from sampan.kubelet.heartbeat import Heartbeat
from sampan.kubelet.node_status import (
    CONTROLLER_ATTACHES,
    READY,
    ConditionValue,
    NodeMachine,
    build_node_labels,
    declared_features,
    node_status,
)
from sampan.kubelet.pod_events import PodEvents
from sampan.kubelet.records import NodeRecord
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed
from sampan.runtimes.contract import ImageInfo, RuntimeFailure, RuntimeStatus

log = logging.getLogger(__name__)

_NO_NETWORK = (
    "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
    "message:Network plugin returns error: cni plugin not initialized"
)
_RETRY_S = 1.0
_POD_CIDR_TIMEOUT_S = 5.0
"""How long a node waits for the allocation of a pod CIDR before it assigns one to itself."""

Conditions = Callable[[], Mapping[str, ConditionValue]]
"""A function that returns the conditions that deviate from those of a healthy node, by type."""
DeviceCapacity = Callable[[], tuple[Mapping[str, str], Mapping[str, str]]]
"""A function that returns capacity and allocatable amount of each device resource."""


class NodeStatusUpdater:
    """Registers the node, and keeps its lease and status current. Until `register` completes, the record contains the
    Node object as the kubelet will register it, which the API server does not have yet.
    """

    def __init__(
        self,
        *,
        config: AgentConfig,
        record: NodeRecord,
        clock: Clock,
        events: PodEvents,
        due: asyncio.Event,
        node_conditions: Conditions,
        device_capacity: DeviceCapacity,
    ) -> None:
        """The status is written without waiting for the next period when `due` is set. `node_conditions` returns the
        conditions, `device_capacity` the resources that other parts of the kubelet contribute to the status.
        """
        self._config, self._record, self._clock, self._due = config, record, clock, due
        self._node_conditions, self._device_capacity = node_conditions, device_capacity
        self._heartbeat = Heartbeat(clock=clock, config=config.kubelet, events=events)
        self._capacity = record.machine.capacity, record.machine.allocatable or record.machine.capacity
        """Capacity and allocatable resources of the machine itself."""
        self._saved_cidrs = read_pod_cidrs(config.root)
        """Pod CIDRs of the node as last seen."""
        self._used_cidrs: list[str] = []
        """Pod CIDRs last passed to the runtime."""
        self._runtime = RuntimeStatus()
        """The last status of the runtime."""
        self._adopt_node(record.api_node)

    async def register(self) -> None:
        """Register the node, retrying until the API server accepts it."""
        config, record = self._config, self._record
        await self._update_runtime_status()
        while True:
            try:
                node = await register_node(record.client, config, record.machine, self._clock.now())
                self._adopt_node(node)
                await self._heartbeat.register(record)
                return
            except (errors.ApiError, ConnectionFailed) as error:
                log.warning("cannot register node %s: %s; retrying in %g s", config.name, error, _RETRY_S)
                await self._clock.sleep(_RETRY_S)

    async def assign_pod_cidr(self) -> None:
        """Assign a pod CIDR to the node if no controller allocates one."""
        config, record = self._config, self._record
        pod_cidrs = self._saved_cidrs or list(config.own_pod_cidrs)
        if not config.needs_pod_cidr or config.pod_cidrs or not pod_cidrs:
            return
        await self._clock.sleep(_POD_CIDR_TIMEOUT_S)
        while not record.api_node.spec.podCIDRs:
            try:
                patch = {"spec": {"podCIDR": pod_cidrs[0], "podCIDRs": pod_cidrs}}
                self._adopt_node(await record.client.for_kind(Node).patch(config.name, patch))
                log.info("node %s: no pod CIDR was allocated, using %s", config.name, pod_cidrs[0])
            except (errors.ApiError, ConnectionFailed) as error:
                log.warning("node %s: cannot set its pod CIDR: %s", config.name, error)
                await self._clock.sleep(_POD_CIDR_TIMEOUT_S)
        self._due.set()

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
            await self._update_runtime_status()
            self._update_conditions()
            try:
                await self._update_images()
                await self._heartbeat.report(self._record)
            except (errors.ApiError, ConnectionFailed) as error:
                log.warning("node %s: cannot update its status: %s", self._config.name, error)

    def on_node(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            return
        record, before = self._record, self._record.machine.conditions
        record.is_changed = record.is_changed or new.status != record.api_node.status
        self._adopt_node(new)
        if record.machine.conditions != before:
            self._due.set()

    def _adopt_node(self, node: Node) -> None:
        """Set the current Node object, save its pod CIDRs on disk and pass them to the runtime."""
        self._record.api_node = node
        if node.spec.podCIDRs and node.spec.podCIDRs != self._saved_cidrs:
            self._saved_cidrs = list(node.spec.podCIDRs)
            try:
                save_pod_cidrs(self._config.root, self._saved_cidrs)
            except OSError as error:
                log.error("node %s: cannot save its pod CIDR: %s", self._config.name, error)
        before, self._used_cidrs = self._used_cidrs, self._pod_cidrs()
        self._record.runtime.use_pod_cidrs(self._used_cidrs)
        self._update_conditions()
        if self._used_cidrs != before and self._runtime.errors:
            self._due.set()  # A missing pod CIDR may have been all that the runtime lacked.

    def _update_conditions(self) -> None:
        record, conditions = self._record, self._conditions()
        if conditions != record.machine.conditions:
            record.machine = replace(record.machine, conditions=conditions)
            record.is_changed = True
        self._update_capacity()

    def _update_capacity(self) -> None:
        record, (own, for_pods) = self._record, self._capacity
        more, more_for_pods = self._device_capacity()
        capacity, allocatable = {**own, **more}, {**for_pods, **more_for_pods}
        if (record.machine.capacity, record.machine.allocatable) != (capacity, allocatable):
            record.machine = replace(record.machine, capacity=capacity, allocatable=allocatable)
            record.is_changed = True

    def _conditions(self) -> dict[str, ConditionValue]:
        """Return the conditions that deviate from those of a healthy node."""
        conditions = dict(self._node_conditions())
        if self._config.needs_pod_cidr and not self._pod_cidrs():
            conditions.setdefault(READY, generate_not_ready_condition([_NO_NETWORK]))
        if self._runtime.errors:
            conditions.setdefault(READY, generate_not_ready_condition(self._runtime.errors))
        return conditions

    # -- internals ---------------------------------------------------------------------------------------------------

    def _pod_cidrs(self) -> list[str]:
        return list(self._record.api_node.spec.podCIDRs or self._config.pod_cidrs or self._saved_cidrs)

    async def _pause(self, seconds: float) -> None:
        """Wait until the next heartbeat, or until the status is due earlier."""
        with contextlib.suppress(WorkCancelled):
            await run_until(self._due.wait(), self._clock.sleep(seconds))
        self._due.clear()

    async def _update_runtime_status(self) -> None:
        record, status = self._record, await self._read_runtime_status()
        self._runtime = status
        if status.errors and not status.handlers:
            return  # Keep the handlers and features of the runtime while it is down.
        handlers, features = runtime_handlers(status), runtime_features(status)
        declared = declared_features(self._config.kubelet.feature_gates, has_mount_options=status.has_mount_options)
        machine = replace(record.machine, handlers=handlers, features=features, declared_features=declared)
        if machine != record.machine:
            record.machine, record.is_changed = machine, True

    async def _read_runtime_status(self) -> RuntimeStatus:
        try:
            return await self._record.runtime.status()
        except Exception as error:  # Whatever the error, the node keeps running and reports it.
            log.exception("node %s: cannot read the status of the container runtime", self._config.name)
            return RuntimeStatus(errors=[f"container runtime is down: {error}"])

    async def _update_images(self) -> None:
        record = self._record
        try:
            images = node_images(await record.runtime.images(), self._config.max_status_images)
        except RuntimeFailure as failure:
            log.warning("node %s: cannot list images: %s", self._config.name, failure.message)
            return
        if images != record.machine.images:
            record.machine = replace(record.machine, images=images)
            record.is_changed = True


# -- registration ----------------------------------------------------------------------------------------------------


def desired_node(config: AgentConfig, machine: NodeMachine, now: float) -> Node:
    """Return the Node object with which the kubelet registers the node. Pure."""
    taints = list(config.taints)
    if not config.is_schedulable:
        taints.append(Taint(key=UNSCHEDULABLE, effect="NoSchedule"))
    node = Node(
        metadata=ObjectMeta(
            name=config.name,
            labels=_desired_labels(config),
            annotations=_desired_annotations(config),
        ),
        spec=NodeSpec(taints=taints, unschedulable=not config.is_schedulable, providerID=config.provider_id),
    )
    node.status = node_status(node, machine, now)
    return node


def _desired_labels(config: AgentConfig) -> dict[str, str]:
    return build_node_labels(config.name) | dict(config.labels)


def _desired_annotations(config: AgentConfig) -> dict[str, str]:
    return {CONTROLLER_ATTACHES: "true", **config.annotations}


async def register_node(client: Client, config: AgentConfig, machine: NodeMachine, now: float) -> Node:
    """Register the node unless the configuration disables that. Return the Node object of the API server."""
    nodes = client.for_kind(Node)
    if config.registers:
        try:
            return await nodes.create(desired_node(config, machine, now))
        except errors.AlreadyExists:
            pass
    node = await nodes.get(config.name)
    patch = _patch(node, config)
    return await nodes.patch(config.name, patch) if patch and config.registers else node


def _patch(node: Node, config: AgentConfig) -> dict[str, object]:
    """Return the patch of an existing node's labels and annotations. The taints of a node are only set
    at its creation.
    """
    meta = node.metadata
    labels = {key: value for key, value in _desired_labels(config).items() if meta.labels.get(key) != value}
    notes = _desired_annotations(config)
    annotations = {key: value for key, value in notes.items() if meta.annotations.get(key) != value}
    metadata = {"labels": labels, "annotations": annotations}
    return {"metadata": {key: value for key, value in metadata.items() if value}} if any(metadata.values()) else {}


# -- contents of the status -------------------------------------------------------------------------------------------


def generate_not_ready_condition(errors: Sequence[str]) -> ConditionValue:
    message = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
    return "False", "KubeletNotReady", message


def runtime_handlers(status: RuntimeStatus) -> list[NodeRuntimeHandler]:
    return [
        NodeRuntimeHandler(
            name=handler.name,
            features=NodeRuntimeHandlerFeatures(
                recursiveReadOnlyMounts=handler.has_recursive_read_only, userNamespaces=handler.has_user_namespaces
            ),
        )
        for handler in status.handlers
    ]


def runtime_features(status: RuntimeStatus) -> NodeFeatures | None:
    policy = status.heeds_groups_policy
    return NodeFeatures(supplementalGroupsPolicy=policy) if policy is not None else None


_MAX_IMAGE_NAMES = 5


def node_images(images: Sequence[ImageInfo], maximum: int = 50) -> list[ContainerImage]:
    """Return the `maximum` largest images, each with a few of its names; all of them if `maximum` is -1."""
    named = [image for image in images if image.digests or image.names]
    largest = sorted(named, key=lambda image: (-image.size, image.id))[: maximum if maximum >= 0 else None]
    return [
        ContainerImage(names=[*image.digests, *image.names][:_MAX_IMAGE_NAMES], sizeBytes=image.size)
        for image in largest
    ]


# -- pod CIDRs on disk, for a kubelet that starts while the API server is unreachable ----------------------------------

_POD_CIDRS_FILE = "pod-ranges"


def read_pod_cidrs(root: Path) -> list[str]:
    try:
        return (root / _POD_CIDRS_FILE).read_text().split()
    except OSError:
        return []


def save_pod_cidrs(root: Path, pod_cidrs: Sequence[str]) -> None:
    """Store the pod CIDRs. Raise OSError if that fails."""
    write_durably(root / _POD_CIDRS_FILE, "".join(f"{cidr}\n" for cidr in pod_cidrs).encode(), mode=0o644)
