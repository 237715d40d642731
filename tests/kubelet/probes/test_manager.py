"""Probes on a virtual clock, against a real server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from sampan.host.activity import Activity
from sampan.host.clock import VirtualClock
from sampan.kubelet.probes import ProbeManager
from sampan.machinery.telemetry.metrics import Metrics
from sampan.runtimes.contract import EXITED, RUNNING, ContainerReport, PodReport
from sampan.runtimes.hollow import HollowRuntime, HollowWorld
from tests.kubelet.container_config.builders import pod
from tests.kubelet.probes.http_server import serving


@dataclass
class Scene:
    clock: VirtualClock
    manager: ProbeManager
    port: int
    changed_pods: list[str] = field(default_factory=list)
    events: list[tuple[str, str]] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    requested_at: list[float] = field(default_factory=list)
    status: int = 200
    metrics: Metrics = field(default_factory=Metrics)

    def report(self, id: str = "one", state: str = RUNNING, started_at: float | None = None) -> PodReport:
        when = self.clock.now() if started_at is None else started_at
        report = ContainerReport("c", id, state, 0, "i", "i", started_at=when, is_started=True, is_ready=True)
        return PodReport(is_sandbox_ready=True, ips=["127.0.0.1"], containers=[report])

    def probed_pod(self, **probes: dict[str, Any]) -> Any:
        get = {"httpGet": {"port": self.port}}
        specs = {f"{kind}Probe": {**get, "periodSeconds": 10, **fields} for kind, fields in probes.items()}
        return pod({"containers": [{"name": "c", "image": "i", **specs}]})

    def state(self, probed_pod: Any, report: PodReport) -> tuple[bool, bool]:
        container = self.manager.apply_results(probed_pod, report).containers[0]
        return container.is_started, container.is_ready


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    clock, activity, metrics = VirtualClock(), Activity(), Metrics()

    async def respond(request: web.BaseRequest) -> web.Response:
        probe_scene.requested_at.append(clock.now())
        return web.Response(status=probe_scene.status)

    async with serving(respond) as port:
        manager = ProbeManager(
            runtime=HollowRuntime(world=HollowWorld(clock=clock)),
            clock=clock,
            on_change=lambda uid: probe_scene.changed_pods.append(uid),
            event=lambda probed_pod, container, reason, text: probe_scene.events.append((reason, text)),
            note=lambda probed_pod, action, outcome, took_s: probe_scene.notes.append((action, outcome)),
            activity=activity,
            metrics=metrics,
        )
        probe_scene = Scene(clock, manager, port, metrics=metrics)
        forget = clock.on_idle(activity.idle)
        task = asyncio.create_task(manager.run())
        try:
            yield probe_scene
        finally:
            task.cancel()
            forget()


def run_scenario(work: Callable[[Scene], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), scene() as scene_:
            await work(scene_)

    asyncio.run(main())


def test_readiness_probe_changes_the_ready_state_at_its_thresholds() -> None:
    async def work(s: Scene) -> None:
        probed_pod, start = s.probed_pod(readiness={"initialDelaySeconds": 5, "failureThreshold": 2}), s.clock.now()
        report = s.report()
        assert s.state(probed_pod, report) == (True, False)
        await s.clock.advance(4)
        assert s.requested_at == []
        await s.clock.advance(2)
        assert s.requested_at == [start + 5]
        assert s.changed_pods == ["u"]
        assert s.state(probed_pod, report) == (True, True)
        s.status = 503
        await s.clock.advance(10)
        assert s.state(probed_pod, report) == (True, True), "one failure is below the threshold"
        await s.clock.advance(10)
        assert s.state(probed_pod, report) == (True, False)
        assert s.events[-1] == ("Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503")
        assert s.manager.failure(probed_pod, "c") is None
        s.status = 200
        await s.clock.advance(10)
        assert s.state(probed_pod, report) == (True, True)
        results = ["c passed", "c failed", "c passed"]
        assert s.notes == [("readiness probe", result) for result in results], "only changes are recorded"

    run_scenario(work)


def test_liveness_failure_is_reset_for_a_new_container() -> None:
    async def work(s: Scene) -> None:
        s.status = 500
        probed_pod = s.probed_pod(liveness={"failureThreshold": 3})
        report = s.report()
        assert s.state(probed_pod, report) == (True, True)
        await s.clock.advance(15)
        assert s.manager.failure(probed_pod, "c") is None
        await s.clock.advance(10)
        assert s.manager.failure(probed_pod, "c") == "Liveness"
        count = len(s.requested_at)
        await s.clock.advance(60)
        assert len(s.requested_at) == count, "a container that is being killed is not probed"
        s.state(probed_pod, s.report(state=EXITED))
        s.state(probed_pod, s.report("two"))
        assert s.manager.failure(probed_pod, "c") is None
        await s.clock.advance(1)
        assert len(s.requested_at) == count + 1

    run_scenario(work)


def test_liveness_and_readiness_probes_wait_for_the_startup_probe() -> None:
    async def work(s: Scene) -> None:
        s.status = 500
        probed_pod = s.probed_pod(startup={"failureThreshold": 5, "periodSeconds": 2}, liveness={}, readiness={})
        report = s.report()
        assert s.state(probed_pod, report) == (False, False)
        await s.clock.advance(5)
        assert {text.split()[0] for _, text in s.events} == {"Startup"}
        s.status = 200
        await s.clock.advance(2)
        assert s.state(probed_pod, report) == (True, False)
        await s.clock.advance(10)
        assert s.state(probed_pod, report) == (True, True)

    run_scenario(work)


def test_startup_probe_fails_at_its_threshold() -> None:
    async def work(s: Scene) -> None:
        s.status = 500
        probed_pod = s.probed_pod(startup={"failureThreshold": 2})
        s.state(probed_pod, s.report())
        await s.clock.advance(30)
        assert s.manager.failure(probed_pod, "c") == "Startup"

    run_scenario(work)


def test_probe_error_is_not_counted_as_failure() -> None:
    async def work(s: Scene) -> None:
        probe = {"exec": {"command": ["true"]}, "failureThreshold": 1}
        probed_pod = pod({"containers": [{"name": "c", "image": "i", "livenessProbe": probe}]})
        s.state(probed_pod, s.report())
        await s.clock.advance(30)
        assert s.manager.failure(probed_pod, "c") is None
        assert s.events[0][1].startswith("Liveness probe errored and resulted in unknown state: ")

    run_scenario(work)


def test_probing_stops_when_a_pod_is_forgotten() -> None:
    async def work(s: Scene) -> None:
        probed_pod = s.probed_pod(readiness={})
        s.state(probed_pod, s.report())
        await s.clock.advance(1)
        s.manager.forget("u")
        count = len(s.requested_at)
        await s.clock.advance(60)
        assert len(s.requested_at) == count

    run_scenario(work)


def test_probe_results_are_counted_in_metrics_until_the_pod_is_forgotten() -> None:
    async def work(s: Scene) -> None:
        probed_pod, report = s.probed_pod(liveness={"failureThreshold": 10}), s.report(started_at=s.clock.now())
        s.manager.apply_results(probed_pod, report)
        await s.clock.advance(15)
        s.status = 500
        await s.clock.advance(10)
        text = s.metrics.text()
        assert 'probe_type="Liveness",result="successful"} 2' in text
        assert 'probe_type="Liveness",result="failed"} 1' in text
        s.manager.forget(probed_pod.metadata.uid)
        assert s.metrics.text() == ""

    run_scenario(work)
