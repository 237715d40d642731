"""A node whose containers are plain processes below a real monitor, and its kubelet's server on a real port."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sampan.api.types.core_v1 import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodIP,
    PodSpec,
    PodStatus,
)
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.values import times
from sampan.host.clock import RealClock
from sampan.kubelet.server.auth import KubeletAuth
from sampan.kubelet.server.ports import listen
from sampan.kubelet.server.server import KubeletServer
from sampan.kubelet.server.view import ServerSettings
from sampan.kubelet.stats.collector import MachineReader, NodeStats, StatsCollector
from sampan.machinery.telemetry.health import HealthMetrics
from sampan.runtimes.contract import EXITED, RUNNING, ContainerReport, ContainerUsage, PodReport, ProcessStream
from sampan.runtimes.hollow import HollowRuntime, HollowWorld
from sampan.runtimes.monitor.client import MonitorClient


class PlainRuntime(HollowRuntime):
    """A runtime whose containers are processes without isolation."""

    def __init__(self, directory: Path) -> None:
        super().__init__(world=HollowWorld(clock=RealClock()))
        self.directory = directory
        self.monitor = MonitorClient(directory / "monitor")
        self.reports: dict[str, dict[str, ContainerReport]] = {}
        self.ended: dict[str, dict[str, ContainerReport]] = {}
        self._execs = 0

    def id(self, pod: Pod, container: str, attempt: int = 0) -> str:
        return f"{pod.metadata.uid}-{container}-{attempt}"

    async def begin(self, pod: Pod, container: Container) -> None:
        """Start a container, or restart it as the next attempt."""
        before = self.reports.setdefault(pod.metadata.uid, {}).get(container.name)
        attempt = before.attempt + 1 if before is not None else 0
        id = self.id(pod, container.name, attempt)
        argv = [*container.command, *container.args]
        log = self._log(pod, container.name, attempt)
        request = {"stdin": bool(container.stdin), "tty": bool(container.tty), "log": str(log)}
        request["stdin_once"] = bool(container.stdinOnce)
        await self.monitor.run(id, argv, env=dict(os.environ), **request)
        if before is not None:
            self.ended.setdefault(pod.metadata.uid, {})[container.name] = before
        self.reports[pod.metadata.uid][container.name] = ContainerReport(
            container.name,
            f"plain://{id}",
            RUNNING,
            attempt,
            container.image,
            "",
            started_at=time.time(),
            is_ready=True,
        )

    async def end(self, pod: Pod, container: str) -> None:
        report = self.reports[pod.metadata.uid][container]
        await self.monitor.kill(report.id.partition("://")[2], signal.SIGKILL, group=True)
        report.state = EXITED

    def _log(self, pod: Pod, container: str, attempt: int) -> Path:
        return self.directory / "logs" / pod.metadata.uid / container / f"{attempt}.log"

    def pod_report(self, pod: Pod) -> PodReport:
        uid = pod.metadata.uid
        reports = list(self.reports.get(uid, {}).values())
        return PodReport(True, 1, ["127.0.0.1"], reports, list(self.ended.get(uid, {}).values()))

    async def exec(
        self, pod: Pod, container: str, command: Sequence[str], *, has_stdin: bool = False, has_tty: bool = False
    ) -> ProcessStream:
        self._execs += 1
        id = f"exec-{self._execs}"
        return await self.monitor.exec(id, list(command), env=dict(os.environ), stdin=has_stdin, tty=has_tty)

    async def attach(self, pod: Pod, container: str, *, has_stdin: bool = False) -> ProcessStream:
        id = self.reports[pod.metadata.uid][container].id.partition("://")[2]
        return await self.monitor.attach(id, has_stdin=has_stdin)

    async def connect(self, pod: Pod, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", port)

    def log_file(self, pod: Pod, container: str, *, previous: bool = False) -> Path | None:
        report = (self.ended if previous else self.reports).get(pod.metadata.uid, {}).get(container)
        return self._log(pod, container, report.attempt) if report is not None else None

    async def reopen_log(self, pod: Pod, container: str) -> None:
        await self.monitor.reopen_log(self.reports[pod.metadata.uid][container].id.partition("://")[2])

    async def stats(self, pod: Pod) -> Sequence[ContainerUsage]:
        names = self.reports.get(pod.metadata.uid, {})
        return [
            ContainerUsage("", 0.3, 30 << 20, cpu_s=3.0),
            *(ContainerUsage(name, 0.25, 20 << 20, cpu_s=2.5) for name in names),
        ]


class PlainNode:
    """A KubeletView of a PlainRuntime; tests add the pods."""

    def __init__(self, directory: Path, name: str = "plain") -> None:
        self.node, self.health_metrics = name, HealthMetrics()
        self.runtime = PlainRuntime(directory)
        self.known: dict[tuple[str, str], Pod] = {}
        machine = MachineReader(directory=directory)
        self._collector = StatsCollector(
            node=name, runtime=self.runtime, pods=self.pods, machine=machine.read, clock=RealClock()
        )

    def pods(self) -> Sequence[Pod]:
        return list(self.known.values())

    def find(self, namespace: str, name: str) -> Pod | None:
        return self.known.get((namespace, name))

    def configuration(self) -> Mapping[str, Any]:
        return {"kind": "KubeletConfiguration", "port": 10250}

    def sync_loop_error(self) -> str:
        return ""

    async def stats(self) -> NodeStats:
        return await self._collector.stats()

    def metrics_text(self) -> str:
        return "# TYPE kubelet_running_pods gauge\nkubelet_running_pods 1\n"

    def probe_metrics_text(self) -> str:
        return "# TYPE prober_probe_total counter\n"

    async def run(self, pod: Pod) -> Pod:
        """Start the pod's containers, and return the pod with an updated status."""
        for container in pod.spec.containers or ():
            await self.runtime.begin(pod, container)
        self.set_pod_status(pod)
        return pod

    def set_pod_status(self, pod: Pod) -> None:
        report = self.runtime.pod_report(pod)
        statuses = [_status(container, report.previous(container.name)) for container in report.containers]
        pod.status = PodStatus(
            phase="Running",
            podIP="127.0.0.1",
            podIPs=[PodIP(ip="127.0.0.1")],
            startTime=times.format_time(time.time()),
            containerStatuses=statuses,
        )
        self.known[pod.metadata.namespace, pod.metadata.name] = pod


def _status(report: ContainerReport, before: ContainerReport | None) -> ContainerStatus:
    runs = ContainerState(running=ContainerStateRunning(startedAt=times.format_time(report.started_at)))
    ended = ContainerState(terminated=ContainerStateTerminated(containerID=report.id))
    last = ContainerState(terminated=ContainerStateTerminated(containerID=before.id)) if before is not None else None
    return ContainerStatus(
        name=report.name,
        containerID=report.id,
        image=report.image,
        ready=report.state == RUNNING,
        restartCount=report.attempt,
        state=runs if report.state == RUNNING else ended,
        lastState=last or ContainerState(),
    )


def plain_pod(*command: str, name: str = "p", **more: Any) -> Pod:
    """Return a pod of one container `main`, or of `containers`."""
    containers = more.pop("containers", None) or [Container(name="main", image="plain", command=list(command), **more)]
    meta = ObjectMeta(name=name, namespace="default", uid=f"uid-{name}")
    return Pod(metadata=meta, spec=PodSpec(containers=containers, nodeName="plain"))


@asynccontextmanager
async def plain_node(directory: Path, name: str = "plain") -> AsyncIterator[PlainNode]:
    node = PlainNode(directory, name)
    await node.runtime.monitor.ensure()
    try:
        yield node
    finally:
        await node.runtime.monitor.quit(kill=True)


@asynccontextmanager
async def serving(
    node: PlainNode, *, access: KubeletAuth | None = None, settings: ServerSettings | None = None
) -> AsyncIterator[str]:
    """Serve the kubelet's API of a node; yield its URL."""
    server = KubeletServer(view=node, clock=RealClock(), auth=access, settings=settings)
    async with listen(server.handle, host="127.0.0.1", port=0, tls=None) as port:
        yield f"http://127.0.0.1:{port}"
