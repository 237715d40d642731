"""Probes on a virtual clock, against a real server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from sampan.kubelet.probes import ProbeManager
from sampan.machinery.activity import Activity
from sampan.machinery.clock import VirtualClock
from sampan.machinery.telemetry.metrics import Metrics
from sampan.runtimes.contract import EXITED, RUNNING, ContainerReport, PodReport
from sampan.runtimes.hollow import HollowRuntime, World
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

    def probed(self, **probes: dict[str, Any]) -> Any:
        get = {"httpGet": {"port": self.port}}
        specs = {f"{kind}Probe": {**get, "periodSeconds": 10, **fields} for kind, fields in probes.items()}
        return pod({"containers": [{"name": "c", "image": "i", **specs}]})

    def state(self, of: Any, report: PodReport) -> tuple[bool, bool]:
        container = self.manager.apply_results(of, report).containers[0]
        return container.is_started, container.is_ready


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    clock, activity, metrics = VirtualClock(), Activity(), Metrics()

    async def respond(request: web.BaseRequest) -> web.Response:
        probe_scene.requested_at.append(clock.now())
        return web.Response(status=probe_scene.status)

    async with serving(respond) as port:
        manager = ProbeManager(
            runtime=HollowRuntime(world=World(clock=clock)),
            clock=clock,
            on_change=lambda uid: probe_scene.changed_pods.append(uid),
            event=lambda of, container, reason, text: probe_scene.events.append((reason, text)),
            note=lambda of, action, outcome, took_s: probe_scene.notes.append((action, outcome)),
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


def play(work: Callable[[Scene], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), scene() as scene_:
            await work(scene_)

    asyncio.run(main())


def test_readiness() -> None:
    async def work(s: Scene) -> None:
        of, start = s.probed(readiness={"initialDelaySeconds": 5, "failureThreshold": 2}), s.clock.now()
        report = s.report()
        assert s.state(of, report) == (True, False)
        await s.clock.advance(4)
        assert s.requested_at == []
        await s.clock.advance(2)
        assert s.requested_at == [start + 5]
        assert s.changed_pods == ["u"]
        assert s.state(of, report) == (True, True)
        s.status = 503
        await s.clock.advance(10)
        assert s.state(of, report) == (True, True), "once is not enough"
        await s.clock.advance(10)
        assert s.state(of, report) == (True, False)
        assert s.events[-1] == ("Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503")
        assert s.manager.failure(of, "c") is None
        s.status = 200
        await s.clock.advance(10)
        assert s.state(of, report) == (True, True)
        results = ["c passed", "c failed", "c passed"]
        assert s.notes == [("readiness probe", result) for result in results], "only changes are recorded"

    play(work)


def test_liveness_kills_and_a_new_container_has_a_new_chance() -> None:
    async def work(s: Scene) -> None:
        s.status = 500
        of = s.probed(liveness={"failureThreshold": 3})
        report = s.report()
        assert s.state(of, report) == (True, True)
        await s.clock.advance(15)
        assert s.manager.failure(of, "c") is None
        await s.clock.advance(10)
        assert s.manager.failure(of, "c") == "Liveness"
        count = len(s.requested_at)
        await s.clock.advance(60)
        assert len(s.requested_at) == count, "nothing more is asked of a container that is being killed"
        s.state(of, s.report(state=EXITED))
        s.state(of, s.report("two"))
        assert s.manager.failure(of, "c") is None
        await s.clock.advance(1)
        assert len(s.requested_at) == count + 1

    play(work)


def test_others_wait_for_startup() -> None:
    async def work(s: Scene) -> None:
        s.status = 500
        of = s.probed(startup={"failureThreshold": 5, "periodSeconds": 2}, liveness={}, readiness={})
        report = s.report()
        assert s.state(of, report) == (False, False)
        await s.clock.advance(5)
        assert {text.split()[0] for _, text in s.events} == {"Startup"}
        s.status = 200
        await s.clock.advance(2)
        assert s.state(of, report) == (True, False)
        await s.clock.advance(10)
        assert s.state(of, report) == (True, True)

    play(work)


def test_startup_that_never_succeeds() -> None:
    async def work(s: Scene) -> None:
        s.status = 500
        of = s.probed(startup={"failureThreshold": 2})
        s.state(of, s.report())
        await s.clock.advance(30)
        assert s.manager.failure(of, "c") == "Startup"

    play(work)


def test_what_cannot_be_asked_counts_for_nothing() -> None:
    async def work(s: Scene) -> None:
        probe = {"exec": {"command": ["true"]}, "failureThreshold": 1}
        of = pod({"containers": [{"name": "c", "image": "i", "livenessProbe": probe}]})
        s.state(of, s.report())
        await s.clock.advance(30)
        assert s.manager.failure(of, "c") is None
        assert s.events[0][1].startswith("Liveness probe errored and resulted in unknown state: ")

    play(work)


def test_a_pod_that_goes_is_forgotten() -> None:
    async def work(s: Scene) -> None:
        of = s.probed(readiness={})
        s.state(of, s.report())
        await s.clock.advance(1)
        s.manager.forget("u")
        count = len(s.requested_at)
        await s.clock.advance(60)
        assert len(s.requested_at) == count

    play(work)


def test_answers_are_counted_while_the_pod_is_there() -> None:
    async def work(s: Scene) -> None:
        of, report = s.probed(liveness={"failureThreshold": 10}), s.report(started_at=s.clock.now())
        s.manager.apply_results(of, report)
        await s.clock.advance(15)
        s.status = 500
        await s.clock.advance(10)
        text = s.metrics.text()
        assert 'probe_type="Liveness",result="successful"} 2' in text
        assert 'probe_type="Liveness",result="failed"} 1' in text
        s.manager.forget(of.metadata.uid)
        assert s.metrics.text() == ""

    play(work)
