"""ControllerRunner, with a small controller that records its keys."""

import asyncio
from collections.abc import AsyncIterator, Hashable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sampan.api.types.core_v1 import ConfigMap, Namespace, Secret
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.host.activity import Activity
from sampan.host.clock import VirtualClock
from sampan.machinery import errors
from sampan.machinery.client import resource_of
from sampan.machinery.control_loop.controller import ControllerRunner, RunnerConfig, Watch
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import key_of
from sampan.machinery.telemetry.flight_recorder import FlightRecorder
from tests.api_server import Server, running_api_server


def owner_name(obj: Any) -> Iterable[Hashable]:
    return [obj.metadata.labels["of"]] if "of" in obj.metadata.labels else []


class RecordingController:
    """A controller that records the keys that it reconciles, with results that the test sets."""

    name = "recording"
    watches: Sequence[Watch] = (
        Watch(resource_of(ConfigMap), lambda obj: [key_of(obj).name]),
        Watch(resource_of(Secret), owner_name),
        Watch(resource_of(Namespace)),
    )

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.raises: list[Exception] = []
        self.requeue_after_s: list[float] = []
        self.takes_s = 0.0
        self.active = 0
        self.most_active = 0
        self.clock = VirtualClock()
        self.recorder = FlightRecorder(clock=self.clock)

    async def reconcile(self, key: str) -> float | None:
        self.keys.append(key)
        self.active += 1
        self.most_active = max(self.active, self.most_active)
        try:
            if self.takes_s:
                await self.clock.sleep(self.takes_s)
            if self.raises:
                raise self.raises.pop(0)
            return self.requeue_after_s.pop(0) if self.requeue_after_s else None
        finally:
            self.active -= 1


@asynccontextmanager
async def running_controller(
    server: Server, controller: RecordingController, config: RunnerConfig | None = None
) -> AsyncIterator[ControllerRunner]:
    clock = server.clock
    assert isinstance(clock, VirtualClock)
    controller.clock = clock
    activity = Activity()
    forget = clock.on_idle(activity.idle)
    async with InformerFactory(client=server.client(), activity=activity) as informers, asyncio.TaskGroup() as group:
        runner = ControllerRunner(
            controller=controller,
            informers=informers,
            clock=clock,
            activity=activity,
            config=config,
            recorder=controller.recorder,
        )
        task = group.create_task(runner.run())
        await clock.settle()
        yield runner
        task.cancel()
    forget()


def config_map(name: str, **labels: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="a", labels=labels))


def secret(name: str, **labels: str) -> Secret:
    return Secret(metadata=ObjectMeta(name=name, namespace="a", labels=labels), type="Opaque")


async def test_existing_and_changed_objects_enqueue_their_keys() -> None:
    clock, controller = VirtualClock(), RecordingController()
    async with running_api_server(clock) as server:
        maps, secrets = server.client().for_kind(ConfigMap), server.client().for_kind(Secret)
        await maps.create(config_map("old"))
        async with running_controller(server, controller):
            assert controller.keys == ["old"]
            await secrets.create(secret("s", of="x"))
            await clock.settle()
            assert controller.keys[1:] == ["x"]
            await secrets.patch("s", {"metadata": {"labels": {"of": "y"}}}, "a")
            await clock.settle()
            assert sorted(controller.keys[2:]) == ["x", "y"], "both the old and the new owner are reconciled"
            await secrets.delete("s", "a")
            await clock.settle()
            assert controller.keys[4:] == ["y"]


def test_failures_back_off_and_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        clock, controller = VirtualClock(), RecordingController()
        controller.raises = [RuntimeError("boom"), errors.conflict("configmaps", "m"), errors.forbidden("x", "y", "z")]
        async with running_api_server(clock) as server:
            await server.client().for_kind(ConfigMap).create(config_map("m"))
            async with running_controller(server, controller) as runner:
                assert controller.keys == ["m"]
                await clock.advance(0.004)
                assert len(controller.keys) == 1
                await clock.advance(0.002)
                assert len(controller.keys) == 2
                await clock.advance(0.011)
                assert len(controller.keys) == 3
                await clock.advance(0.021)
                assert len(controller.keys) == 4
                await clock.advance(10_000)
                assert len(controller.keys) == 4
                assert runner.queue.failures("m") == 0
                assert (runner.stats.reconciles, runner.stats.errors, runner.stats.conflicts) == (4, 3, 1)
                assert runner.queue.stats.retries == 3
                records = [
                    (record.component, record.subject, record.outcome) for record in controller.recorder.records_since()
                ]
                assert records[0] == ("recording", "m", "boom")
                assert len(records) == 3

    asyncio.run(main())
    assert "recording: sync of m failed; retrying in 0.005 s" in caplog.text
    assert "boom" in caplog.text
    assert 'x "y" is forbidden: z; retrying in 0.02 s' in caplog.text
    assert "Operation cannot be fulfilled" not in caplog.text, "conflicts are not logged"


async def test_objects_that_are_not_found_are_reported_if_that_does_not_end(caplog: pytest.LogCaptureFixture) -> None:
    clock, controller = VirtualClock(), RecordingController()
    controller.raises = [errors.not_found("configmaps", "other") for _ in range(13)]
    async with running_api_server(clock) as server:
        await server.client().for_kind(ConfigMap).create(config_map("m"))
        async with running_controller(server, controller):
            await clock.advance(1)
            assert len(controller.keys) > 5
            assert "not found" not in caplog.text
            await clock.advance(100)
            assert len(controller.keys) == 14
    assert caplog.text.count('configmaps "other" not found') == 1


async def test_key_is_reconciled_again_after_the_returned_delay() -> None:
    clock, controller = VirtualClock(), RecordingController()
    controller.requeue_after_s = [3600, 60]
    async with running_api_server(clock) as server:
        await server.client().for_kind(ConfigMap).create(config_map("m"))
        async with running_controller(server, controller):
            await clock.advance(3599)
            assert len(controller.keys) == 1
            await clock.advance(1)
            assert len(controller.keys) == 2
            await clock.advance(60)
            assert len(controller.keys) == 3
            await clock.advance(100_000)
            assert len(controller.keys) == 3


async def test_no_more_workers_than_configured_and_one_per_key() -> None:
    clock, controller = VirtualClock(), RecordingController()
    controller.takes_s = 1
    async with running_api_server(clock) as server:
        maps = server.client().for_kind(ConfigMap)
        for number in range(9):
            await maps.create(config_map(f"m{number}"))
        async with running_controller(server, controller, RunnerConfig(workers=3)):
            await maps.patch("m0", {"data": {"x": "1"}}, "a")
            await clock.advance(2)
            assert controller.most_active == 3
            await clock.advance(2)
            assert sorted(controller.keys) == sorted([f"m{number}" for number in range(9)] + ["m0"])


async def test_nothing_is_reconciled_before_the_caches_are_filled() -> None:
    clock, controller = VirtualClock(), RecordingController()
    async with running_api_server(clock) as server:
        await server.client().for_kind(ConfigMap).create(config_map("m"))
        server.scheme.remove(resource_of(Namespace))
        async with running_controller(server, controller):
            await clock.advance(10)
            assert controller.keys == []


class ControllerWithInitialKey(RecordingController):
    """A controller with a key that stands for no object."""

    initial_keys = ("everything",)


async def test_initial_keys_are_reconciled_without_objects() -> None:
    clock, controller = VirtualClock(), ControllerWithInitialKey()
    controller.requeue_after_s = [5.0, 5.0]
    async with running_api_server(clock) as server, running_controller(server, controller):
        assert controller.keys == ["everything"]
        await clock.advance(60)
        assert controller.keys == ["everything"] * 3
