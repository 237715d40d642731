"""Base class of runtimes whose containers are processes of the monitor: records, reports, exits, and recovery."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from sampan.api.types.core_v1 import Pod
from sampan.host.background_tasks import DetachedTasks
from sampan.host.clock import Clock
from sampan.runtimes import contract
from sampan.runtimes.config import ContainerConfig, SandboxConfig
from sampan.runtimes.contract import PodCallback, PodReport, ProcessStream, RuntimeFailure, RuntimeStatus
from sampan.runtimes.monitor.client import MonitorClient, MonitorError
from sampan.runtimes.pod_state import PodState, make_container_record, make_sandbox_record, report
from sampan.runtimes.records import ContainerRecord, PodRecords

log = logging.getLogger(__name__)

_RECONNECT_S = 1.0
_ALIVE = (contract.RUNNING, contract.CREATED)

Self = TypeVar("Self", bound="MonitoredRuntime")


class MonitoredRuntime(ABC):
    """A runtime that runs containers as child processes of the monitor.

    Entering the context starts the monitor if necessary and takes over the containers of an earlier kubelet.
    `directory` is the directory of the node.
    """

    name: str

    def __init__(self, *, directory: Path, clock: Clock, on_pod_change: PodCallback) -> None:
        self._directory, self._clock, self._on_pod_change = directory, clock, on_pod_change
        self._records = PodRecords(directory)
        self._monitor = MonitorClient(directory / "monitor")
        self._pods: dict[str, PodState] = {}
        self._background = DetachedTasks("the container runtime")

    async def __aenter__(self: Self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o711)
        await self._monitor.ensure()
        self._load()
        await self._reconcile()
        self._background.start(self._follow())
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Stop watching the monitor. Containers keep running."""
        await self._background.stop()

    async def shut_down(self) -> None:
        """Remove all pods and stop the monitor, for a node that is removed from the cluster."""
        for uid in list(self._pods):
            await self.remove_pod(uid)
        await self._monitor.quit(kill=True)

    # -- implemented by each runtime ---------------------------------------------------------------------------------

    @abstractmethod
    async def _end_sandbox(self, pod: PodState) -> None:
        """Release the network of the sandbox and record that it is not ready. Its containers have exited."""

    @abstractmethod
    async def _release_pod(self, pod: PodState) -> None:
        """Release the network, mounts and other resources of a removed pod. The directory of its records is removed
        afterwards."""

    @abstractmethod
    async def _release_container(self, pod: PodState, record: ContainerRecord) -> None:
        """Release the resources of an exited container. Its files and log are kept until the container is removed."""

    def _was_out_of_memory(self, record: ContainerRecord) -> bool:
        """Whether the OOM killer killed the container; False if that is unknown."""
        return False

    async def _find_namespaces(self, pod: PodState, running: dict[str, dict[str, Any]]) -> None:
        """Fill in the namespaces that the containers of a recovered pod share."""
        pod.spaces = {}

    # -- state -------------------------------------------------------------------------------------------------------

    async def status(self) -> RuntimeStatus:
        return RuntimeStatus()

    def adopt(self, pod: Pod) -> None:
        return  # existing pods were loaded by __aenter__()

    def list_pod_uids(self) -> Sequence[str]:
        return list(self._pods)

    def pod_report(self, pod: Pod) -> PodReport:
        state = self._pods.get(pod.metadata.uid)
        return report(state, pod, self.name) if state is not None else contract.EMPTY_REPORT

    # -- sandboxes ---------------------------------------------------------------------------------------------------

    async def _replace_sandbox_record(self, config: SandboxConfig) -> PodState:
        """Return the state of the pod with a new sandbox record; the caller creates the sandbox itself. The containers
        and the sandbox of an earlier attempt are stopped."""
        old = self._pods.get(config.uid)
        if old is not None:
            await self._end_containers(old)
            await self._end_sandbox(old)
        pod = self._pods[config.uid] = PodState(make_sandbox_record(config, old, self._clock.now()))
        pod.config = config
        self._records.save_config(config)
        if old is not None:
            pod.containers = old.containers
        return pod

    async def stop_sandbox(self, pod: Pod) -> None:
        state = self._pods.get(pod.metadata.uid)
        if state is not None and state.sandbox.is_ready:
            await self._end_sandbox(state)

    async def remove_pod(self, uid: str) -> None:
        pod = self._pods.get(uid)
        if pod is None:
            return
        await self._end_containers(pod)
        for record in list(pod.containers.values()):
            await self._remove(pod, record)
        await self._end_sandbox(pod)
        await self._release_pod(pod)
        await asyncio.to_thread(self._records.remove, self._records.pod(uid))
        del self._pods[uid]

    # -- containers --------------------------------------------------------------------------------------------------

    def _create_container_record(self, pod: PodState, config: ContainerConfig, attempt: int) -> ContainerRecord:
        record = make_container_record(config, attempt, self._clock.now())
        record.cgroup = f"{pod.sandbox.cgroup_parent.rstrip('/')}/{record.id}" if pod.sandbox.cgroup_parent else ""
        pod.containers[record.id] = record
        self._records.save_container(pod.sandbox.uid, record)
        return record

    def _note_start(self, pod: PodState, record: ContainerRecord) -> None:
        """Record that the container is running, unless its exit has been recorded already."""
        if record.state == contract.CREATED:
            record.state, record.started_at = contract.RUNNING, self._clock.now()
        self._records.save_container(pod.sandbox.uid, record)

    async def _record_start_failure(self, pod: PodState, record: ContainerRecord, message: str) -> None:
        """Record that a container that was created cannot be started. It has exited and never ran."""
        record.state, record.finished_at = contract.EXITED, self._clock.now()
        record.exit_code, record.reason = contract.START_ERROR_CODE, contract.START_ERROR
        record.message = message
        self._records.save_container(pod.sandbox.uid, record)
        await self._clean_up(pod, record)
        self._on_pod_change(pod.sandbox.uid)

    def _find_ready_pod(self, uid: str) -> PodState:
        """Return the pod if its sandbox is ready, that is, if containers can be started in it."""
        pod = self._pods.get(uid)
        if pod is None or pod.config is None or not pod.sandbox.is_ready:
            raise RuntimeFailure("CreateContainerError", "the pod has no sandbox")
        return pod

    async def stop_container(self, pod: Pod, name: str, grace_s: float) -> None:
        state = self._pods.get(pod.metadata.uid)
        runs = state.runs_of(name) if state is not None else []
        if state is None or not runs or runs[0].state not in _ALIVE:
            return
        record = runs[0]
        if (task := state.kills.pop(record.id, None)) is not None:
            task.cancel()
        elif grace_s > 0:
            await self._signal(record, _signal_number(record.stop_signal))
        state.kills[record.id] = self._background.start(self._kill_after(state, record, grace_s))

    async def _kill_after(self, pod: PodState, record: ContainerRecord, grace_s: float) -> None:
        if grace_s > 0:
            await self._clock.sleep(grace_s)
        if record.state in _ALIVE:
            await self._signal(record, signal.SIGKILL)

    async def _signal(self, record: ContainerRecord, number: int) -> None:
        with contextlib.suppress(MonitorError):
            await self._monitor.kill(record.id, number)

    async def remove_container(self, pod: Pod, id: str) -> None:
        state = self._pods.get(pod.metadata.uid)
        record = state.containers.get(id.removeprefix(f"{self.name}://")) if state is not None else None
        if state is not None and record is not None:
            await self._remove(state, record)

    # -- exec, attach, logs ------------------------------------------------------------------------------------------

    async def attach(self, pod: Pod, container: str, *, has_stdin: bool = False) -> ProcessStream:
        _, record = self._find_running_container(pod, container)
        return await self._monitor.attach(record.id, has_stdin=has_stdin)

    def log_file(self, pod: Pod, container: str, *, previous: bool = False) -> Path | None:
        state = self._pods.get(pod.metadata.uid)
        runs = state.runs_of(container) if state is not None else []
        run = runs[1:2] if previous else runs[:1]
        return Path(run[0].log_path) if run else None

    def log_text(self, pod: Pod, container: str) -> str | None:
        return None

    async def reopen_log(self, pod: Pod, container: str) -> None:
        _, record = self._find_running_container(pod, container)
        await self._monitor.reopen_log(record.id)

    def _find_running_container(self, pod: Pod, name: str) -> tuple[PodState, ContainerRecord]:
        state = self._pods.get(pod.metadata.uid)
        runs = state.runs_of(name) if state is not None else []
        if state is None or not runs or runs[0].state != contract.RUNNING:
            raise RuntimeFailure("NotFound", f'container "{name}" is not running')
        return state, runs[0]

    # -- exits -------------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Record the exits that the monitor reports, reconnecting to the monitor until cancelled."""
        while True:
            try:
                await self._monitor.follow(self._on_exit)
            except (MonitorError, OSError) as error:
                log.warning("lost the connection to the container monitor, reconnecting: %s", error)
            await asyncio.sleep(_RECONNECT_S)
            try:
                await self._monitor.ensure()
                await self._reconcile()
            except (RuntimeFailure, OSError) as error:
                log.error("cannot connect to the container monitor: %s", error)

    def _on_exit(self, exit_report: dict[str, Any]) -> None:
        for pod in self._pods.values():
            record = pod.containers.get(exit_report["id"])
            if record is not None and record.state in _ALIVE:
                self._note_end(pod, record, int(exit_report["code"]), float(exit_report["finished_at"]))

    def _note_end(self, pod: PodState, record: ContainerRecord, code: int, finished_at: float) -> None:
        record.state, record.exit_code = contract.EXITED, code
        record.finished_at = finished_at or self._clock.now()
        # The exit of a short-lived container may be seen before its start is recorded.
        record.started_at = min(record.started_at or record.finished_at, record.finished_at)
        is_oom = code == contract.KILLED_CODE and self._was_out_of_memory(record)
        record.reason = contract.OOM_KILLED if is_oom else contract.ERROR if code else contract.COMPLETED
        try:
            self._records.save_container(pod.sandbox.uid, record)
        except OSError as error:  # a restarted kubelet reads the exit file of the monitor instead
            log.error("cannot save the exit status of container %s: %s", record.id, error)
        if (task := pod.kills.pop(record.id, None)) is not None:
            task.cancel()
        self._background.start(self._clean_up(pod, record))
        self._on_pod_change(pod.sandbox.uid)

    async def _clean_up(self, pod: PodState, record: ContainerRecord) -> None:
        await self._release_container(pod, record)
        with contextlib.suppress(MonitorError):
            await self._monitor.forget(record.id)

    async def _remove(self, pod: PodState, record: ContainerRecord) -> None:
        if record.state in _ALIVE and record.pid:
            await self._kill_process(record.id)
        await self._clean_up(pod, record)
        await asyncio.to_thread(self._records.remove, self._records.container(pod.sandbox.uid, record.id))
        pod.containers.pop(record.id, None)
        pod.specs.pop(record.id, None)

    async def _end_containers(self, pod: PodState) -> None:
        running = [container for container in pod.containers.values() if container.state in _ALIVE]
        for record in running:
            await self._kill_process(record.id)
            if record.state in _ALIVE:
                self._note_end(pod, record, contract.KILLED_CODE, 0)

    async def _kill_process(self, id: str) -> None:
        """Kill a process of the monitor with SIGKILL, and wait up to 10 seconds for its exit."""
        with contextlib.suppress(MonitorError):
            stream = await self._monitor.attach(id)
            try:
                await self._monitor.kill(id, signal.SIGKILL)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(10):
                        await stream.wait()
            finally:
                await stream.close()
            await self._monitor.forget(id)

    # -- recovery ----------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        for record in self._records.sandboxes():
            pod = self._pods[record.uid] = PodState(record)
            pod.config = self._records.config(record.uid)
            pod.containers = {container.id: container for container in self._records.containers(record.uid)}

    async def _reconcile(self) -> None:
        """Reconcile the records with the processes of the monitor. A container that the monitor does not know has
        exited; its exit code is read from its exit file, if there is one."""
        running = {process["id"]: process for process in await self._monitor.list()}
        for pod in list(self._pods.values()):
            await self._find_namespaces(pod, running)
            for record in list(pod.containers.values()):
                if record.state not in _ALIVE:
                    continue
                object_process = running.get(record.id)
                if object_process is None or not record.started_at:
                    self._note_end(pod, record, *_read_exit(self._records.container(pod.sandbox.uid, record.id)))
                elif object_process["code"] is not None:
                    self._note_end(pod, record, object_process["code"], object_process["finished_at"])


def _read_exit(directory: Path) -> tuple[int, float]:
    """Return the exit code and time that the monitor wrote, or those of a killed process if it wrote none."""
    try:
        value = msgspec.json.decode((directory / "exit").read_bytes(), type=dict[str, Any])
        return int(value["code"]), float(value["finished_at"])
    except (OSError, msgspec.MsgspecError, KeyError):
        return contract.KILLED_CODE, 0.0


def _signal_number(name: str) -> int:
    """Return the number of a signal named in an image or a pod; SIGTERM for an unknown name."""
    if not name:
        return signal.SIGTERM
    if name.isascii() and name.isdecimal() and len(name) < 3 and int(name) in signal.valid_signals():
        return int(name)
    full = name if name.startswith("SIG") else f"SIG{name}"
    return signal.Signals[full] if full in signal.Signals.__members__ else signal.SIGTERM
