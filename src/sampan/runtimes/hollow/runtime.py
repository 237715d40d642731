"""The hollow runtime of one node, and the addresses of its pods. A `HollowWorld` contains the clock, stages and
addresses that all nodes share."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sampan.api.addresses import parse
from sampan.api.semantics.pods import all_containers, init_and_main_containers
from sampan.api.types.core_v1 import Container, ContainerStatus, Pod
from sampan.api.values import times
from sampan.host.clock import Clock, wall_offset
from sampan.runtimes.config import ContainerConfig, ContainerResources, SandboxConfig
from sampan.runtimes.contract import (
    EMPTY_REPORT,
    ContainerUsage,
    ImageInfo,
    PodReport,
    ProcessStream,
    PullResult,
    RuntimeFailure,
    RuntimeStatus,
    Unsupported,
)
from sampan.runtimes.hollow import container as containers
from sampan.runtimes.hollow.behavior import FOREVER, NO_STAGES, ContainerBehavior, HollowStages
from sampan.runtimes.hollow.container import NAME, HollowContainer

if TYPE_CHECKING:
    from sampan.runtimes.images.credentials import Keyring

POD_RANGE = "10.128.0.0/9"


class AddressRange:
    """Addresses of hollow pods, allocated in turn, so that a released address is not reused at once."""

    def __init__(self, cidr: str) -> None:
        network = ipaddress.ip_network(cidr, strict=False)
        self.cidr = cidr
        self._first = int(network.network_address) + 1
        self._count = max(network.num_addresses - 2, 1)
        self._make = type(network.network_address)
        self._used: set[int] = set()
        self._next = 0

    def take(self) -> str:
        """Allocate and return an unused address, or return an empty string if all are in use."""
        if len(self._used) >= self._count:
            return ""
        while self._next in self._used:
            self._next = (self._next + 1) % self._count
        index = self._next
        self._used.add(index)
        self._next = (index + 1) % self._count
        return str(self._make(self._first + index))

    def claim(self, address: str) -> bool:
        """Allocate this address. Return False if it is in use or outside of the CIDR."""
        index = self._index(address)
        if index is None or index in self._used:
            return False
        self._used.add(index)
        return True

    def give_back(self, address: str) -> None:
        index = self._index(address)
        if index is not None:
            self._used.discard(index)

    def _index(self, address: str) -> int | None:
        ip = parse(address)
        if not isinstance(ip, self._make):
            return None
        index = int(ip) - self._first
        return index if 0 <= index < self._count else None


@dataclass(slots=True, kw_only=True)
class HollowWorld:
    clock: Clock
    stages: HollowStages = NO_STAGES
    addresses: AddressRange = field(default_factory=lambda: AddressRange(POD_RANGE))
    """Addresses for pods of nodes without a pod CIDR."""
    _offset: float = field(init=False)

    def __post_init__(self) -> None:
        self._offset = wall_offset(self.clock)

    def now(self) -> float:
        """Return the time of hollow containers: the wall-clock time at the start, advanced by the monotonic clock. The
        future of a hollow container is decided when it starts, and setting the wall clock must not shift it."""
        return self.clock.monotonic() + self._offset


@dataclass(slots=True)
class _HollowPod:
    is_sandbox_ready: bool = False
    sandboxes: int = 0
    ip: str = ""
    containers: dict[str, HollowContainer] = field(default_factory=dict)
    left: dict[str, HollowContainer] | None = None
    """Containers of the previous sandbox that have not been started again yet."""


class HollowRuntime:
    """Simulates the containers of a node. Containers that started before `booted_at` are lost, as after a power
    failure."""

    name, version = NAME, "1.0"

    __slots__ = ("_addresses", "_booted_at", "_pods", "_world")

    def __init__(self, *, world: HollowWorld, booted_at: float = 0) -> None:
        self._world, self._booted_at = world, booted_at
        self._pods: dict[str, _HollowPod] = {}
        self._addresses: AddressRange | None = None

    def use_pod_cidrs(self, cidrs: Sequence[str]) -> None:
        if cidrs and (self._addresses is None or self._addresses.cidr != cidrs[0]):
            self._addresses = AddressRange(cidrs[0])
            for pod in self._pods.values():
                if pod.ip:
                    self._addresses.claim(pod.ip)

    async def status(self) -> RuntimeStatus:
        return RuntimeStatus()

    def adopt(self, pod: Pod) -> None:
        statuses = [*pod.status.initContainerStatuses, *pod.status.containerStatuses]
        statuses_by_name = {status.name: status for status in statuses if status.containerID.startswith(f"{NAME}://")}
        if not statuses_by_name or pod.metadata.uid in self._pods:
            return
        state = _HollowPod(sandboxes=1)
        for spec in init_and_main_containers(pod.spec):
            if (status := statuses_by_name.get(spec.name)) is not None:
                again = self._make_container(pod, spec, status.restartCount, _began_at(status), runs=True)
                if (container := containers.restore_container(status, again, self._booted_at)) is not None:
                    state.containers[spec.name] = container
        started = times.parse_time(pod.status.startTime) if pod.status.startTime else 0.0
        if pod.status.podIP and started >= self._booted_at:
            state.is_sandbox_ready, state.ip = True, pod.status.podIP
            self._range().claim(state.ip)
        self._pods[pod.metadata.uid] = state

    def pod_report(self, pod: Pod) -> PodReport:
        uid, now = pod.metadata.uid, self._world.now()
        state = self._pods.get(uid)
        if state is None:
            return EMPTY_REPORT
        images = _images(pod)
        reports, before, change = [], [], FOREVER
        for name, container in state.containers.items():
            image = images.get(name, "")
            reports.append(containers.report(uid, name, image, container, now))
            change = min(change, container.next_change(now))
            if container.previous is not None:
                before.append(containers.report(uid, name, image, container.previous, now))
        for name, container in (state.left or {}).items():
            before.append(containers.report(uid, name, images.get(name, ""), container, now))
        return PodReport(
            is_sandbox_ready=state.is_sandbox_ready,
            sandboxes=state.sandboxes,
            ips=(state.ip,) if state.ip and state.is_sandbox_ready else (),
            containers=reports,
            before=before,
            changes_in_s=None if change == FOREVER else change - now,
        )

    def list_pod_uids(self) -> Sequence[str]:
        return list(self._pods)

    async def run_sandbox(self, pod: Pod, config: SandboxConfig | None = None) -> None:
        state = self._pods.setdefault(pod.metadata.uid, _HollowPod())
        if not pod.spec.hostNetwork and not state.ip:
            state.ip = self._range().take()
            if not state.ip:
                raise RuntimeFailure("FailedCreatePodSandBox", "no free IP address is left in the pod CIDR of the node")
        _set_aside_containers(state, pod)
        state.is_sandbox_ready, state.sandboxes = True, state.sandboxes + 1

    async def stop_sandbox(self, pod: Pod) -> None:
        state = self._pods.get(pod.metadata.uid)
        if state is not None:
            state.is_sandbox_ready = False
            self._give_back_address(state)

    async def remove_pod(self, uid: str) -> None:
        state = self._pods.pop(uid, None)
        if state is not None:
            self._give_back_address(state)

    async def image(self, name: str) -> ImageInfo | None:
        return None

    async def images(self) -> Sequence[ImageInfo]:
        return ()

    async def remove_image(self, name: str) -> None:
        return

    async def pull_image(self, pod: Pod, container: Container, keyring: Keyring | None = None) -> PullResult:
        behavior = self._world.stages.behavior(pod, container.name)
        if behavior.pull_error:
            raise RuntimeFailure("ErrImagePull", behavior.pull_error)
        return PullResult(containers.image_ref(container.image), continues=behavior.pull.max_s > 0)

    def pull_progress(self, name: str) -> tuple[int, int] | None:
        return None

    async def start_container(
        self, pod: Pod, container: Container, attempt: int, config: ContainerConfig | None = None
    ) -> str:
        uid, now = pod.metadata.uid, self._world.now()
        state = self._pods[uid]
        begun = self._make_container(pod, container, attempt, now)
        last = state.containers.get(container.name) or (state.left or {}).pop(container.name, None)
        if last is not None:
            last.previous = None
            begun.previous = last
        state.containers[container.name] = begun
        return containers.container_id(uid, container.name, attempt)

    async def stop_container(self, pod: Pod, name: str, grace_s: float) -> None:
        state = self._pods.get(pod.metadata.uid)
        container = state.containers.get(name) if state is not None else None
        if container is None:
            return
        behavior = self._world.stages.behavior(pod, name)
        took_s = behavior.stop.pick(f"{pod.metadata.uid}/{name}/stop") + _pre_stop_s(pod, name)
        container.stop(self._world.now(), grace_s, took_s, behavior.stop_exit_code)

    async def remove_container(self, pod: Pod, id: str) -> None:
        uid, state = pod.metadata.uid, self._pods.get(pod.metadata.uid)
        for name, container in list(state.containers.items()) if state is not None else ():
            if containers.container_id(uid, name, container.attempt) == id:
                assert state is not None
                del state.containers[name]

    async def update_resources(self, pod: Pod, name: str, resources: ContainerResources) -> None:
        return

    async def exec(
        self, pod: Pod, container: str, command: Sequence[str], *, has_stdin: bool = False, has_tty: bool = False
    ) -> ProcessStream:
        raise Unsupported("a hollow container runs no process: exec is not supported")

    async def attach(self, pod: Pod, container: str, *, has_stdin: bool = False) -> ProcessStream:
        raise Unsupported("a hollow container runs no process: attach is not supported")

    async def connect(self, pod: Pod, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise Unsupported("a hollow pod listens on no port")

    def log_file(self, pod: Pod, container: str, *, previous: bool = False) -> Path | None:
        return None

    async def reopen_log(self, pod: Pod, container: str) -> None:
        return

    def log_text(self, pod: Pod, container: str) -> str:
        """Return the simulated output of the container."""
        return self._world.stages.behavior(pod, container).log

    async def stats(self, pod: Pod) -> Sequence[ContainerUsage]:
        report = self.pod_report(pod)
        running = [container.name for container in report.containers if container.state == "running"]
        behaviors: dict[str, ContainerBehavior] = {name: self._world.stages.behavior(pod, name) for name in running}
        return [ContainerUsage(name, behavior.cpu, behavior.memory) for name, behavior in behaviors.items()]

    def _make_container(
        self, pod: Pod, container: Container, attempt: int, now: float, *, runs: bool = False
    ) -> HollowContainer:
        is_init = any(container.name == init.name for init in pod.spec.initContainers)
        behavior = self._world.stages.behavior(pod, container.name)
        return containers.make_container(pod, container, behavior, attempt, now, is_init=is_init, runs=runs)

    def _range(self) -> AddressRange:
        return self._addresses or self._world.addresses

    def _give_back_address(self, pod: _HollowPod) -> None:
        if pod.ip:
            self._world.addresses.give_back(pod.ip)
            if self._addresses is not None:
                self._addresses.give_back(pod.ip)
            pod.ip = ""


def _set_aside_containers(state: _HollowPod, pod: Pod) -> None:
    """Set aside the containers that are not current in a new sandbox: init containers, which run again, and failed
    containers."""
    inits = {container.name for container in pod.spec.initContainers}
    removed = [name for name, old in state.containers.items() if name in inits or old.exit_code]
    if removed:
        state.left = {name: state.containers.pop(name) for name in removed}


def _began_at(status: ContainerStatus) -> float:
    state = status.state
    when = state.running.startedAt if state.running is not None else None
    return times.parse_time(when) if when else 0.0


def _images(pod: Pod) -> dict[str, str]:
    return {container.name: container.image for container in all_containers(pod.spec)}


def _pre_stop_s(pod: Pod, name: str) -> float:
    """Return the seconds of the container's preStop sleep action. Other lifecycle hooks are not simulated."""
    for container in init_and_main_containers(pod.spec):
        if container.name == name and container.lifecycle is not None and container.lifecycle.preStop is not None:
            sleep = container.lifecycle.preStop.sleep
            return float(sleep.seconds) if sleep is not None else 0.0
    return 0.0
