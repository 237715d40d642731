"""DefaultBinder: retries of bindings after transient errors."""

import asyncio
from typing import Any

import pytest

from sampan.api.types.core_v1 import Container, Pod, PodSpec
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.machinery import errors
from sampan.scheduler.plugins.default_binder import DefaultBinder
from sampan.scheduler.simulation import Simulation
from tests.scheduler.random_clusters import plugin_of, profile_with


@pytest.mark.parametrize(
    ("failures", "attempts", "message"),
    [
        pytest.param([], 1, "", id="success"),
        pytest.param([errors.InternalError("etcd")] * 3, 4, "", id="internal errors"),
        pytest.param([errors.ServiceUnavailable("starting")], 2, "", id="service unavailable"),
        pytest.param([errors.InternalError("etcd")] * 4, 4, "etcd", id="too many errors"),
        pytest.param([errors.Conflict("pod is bound")], 1, "pod is bound", id="permanent error"),
    ],
)
def test_transient_errors_are_retried(
    failures: list[errors.ApiError], attempts: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulation = Simulation(profile=profile_with("NodeName"))
    plugin: DefaultBinder = plugin_of(simulation, "DefaultBinder")
    remaining, calls = list(failures), 0

    async def create_subresource(*arguments: Any) -> None:
        nonlocal calls
        calls += 1
        if remaining:
            raise remaining.pop(0)

    async def sleep(seconds: float) -> None:
        pass

    monkeypatch.setattr(plugin._pods, "create_subresource", create_subresource)
    monkeypatch.setattr(simulation.clock, "sleep", sleep)
    pod = Pod(metadata=ObjectMeta(name="p", namespace="x", uid="p"), spec=PodSpec(containers=[Container(name="c")]))
    status = asyncio.run(plugin.bind(simulation.cycle(pod), "a"))
    assert calls == attempts
    assert (status.message if status is not None else "") == message
