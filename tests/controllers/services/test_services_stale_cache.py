"""Endpoints and EndpointSlices list no pod twice, however stale the caches of their controllers are."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from sampan.api.types.core_v1 import Endpoints, Event, Pod
from sampan.controllers.descriptor import ControllerConfig
from sampan.machinery.client import DeleteParameters
from tests.controllers.cluster import Cluster, cluster
from tests.controllers.services.backends import Backends
from tests.controllers.workloads.lag import Lag, lagging_controller

SEEDS = range(6)


async def run_until_settled(c: Cluster, slow: Lag) -> None:
    """Deliver all events to the controller, step by step."""
    for _ in range(3000):
        await c.clock.settle()
        if not slow.step():
            return
    raise AssertionError("the controller does not settle")


async def deliver_some_events(c: Cluster, slow: Lag, random: Random) -> None:
    for _ in range(random.randrange(6)):
        slow.step()
        await c.clock.settle()


async def change(backends: Backends, c: Cluster, random: Random, names: set[str], index: int) -> None:
    """Create, change or delete a pod."""
    action = random.randrange(4)
    if action <= 1 or not names:
        await backends.start(f"p{index}", ready=random.random() < 0.7)
        names.add(f"p{index}")
    elif action == 2:
        await backends.set_ready(random.choice(sorted(names)), random.random() < 0.5)
    else:
        name = random.choice(sorted(names))
        names.remove(name)
        await c.client.for_kind(Pod).delete(name, "default", options=DeleteParameters(grace_period_s=0))


async def disturb(c: Cluster, backends: Backends, slow: Lag, random: Random) -> None:
    names: set[str] = set()
    for index in range(25):
        await change(backends, c, random, names, index)
        await deliver_some_events(c, slow, random)
        await backends.list_conditions()  # asserts that no pod is in two slices
    await run_until_settled(c, slow)
    await c.clock.advance(40)
    await run_until_settled(c, slow)


async def ready_pods(c: Cluster) -> dict[str, bool]:
    pods: Sequence[Any] = (await c.client.for_kind(Pod).list()).items
    return {
        pod.metadata.name: any(
            condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions
        )
        for pod in pods
    }


@pytest.mark.parametrize("seed", SEEDS)
async def test_endpoint_slices_list_each_pod_once(seed: int) -> None:
    config = ControllerConfig(max_endpoints_per_slice=3)
    async with cluster() as c:
        backends, random = Backends(c), Random(seed)
        await backends.account()
        await backends.add("n")
        async with lagging_controller(c, "endpointslice-controller", seed, config=config) as slow:
            await backends.serve()
            await disturb(c, backends, slow, random)
            listed = await backends.list_conditions()
            assert {name: state[0] for name, state in listed.items()} == await ready_pods(c)
            assert all(len(endpoint_slice.endpoints or ()) <= 3 for endpoint_slice in await backends.slices())


@pytest.mark.parametrize("seed", SEEDS)
async def test_endpoints_list_each_pod_once(seed: int) -> None:
    async with cluster() as c:
        backends, random = Backends(c), Random(seed)
        await backends.account()
        await backends.add("n")
        async with lagging_controller(c, "endpoints-controller", seed) as slow:
            await backends.serve()
            await disturb(c, backends, slow, random)
            endpoints = await c.client.for_kind(Endpoints).get("web", "default")
            listed = {
                address.targetRef.name: is_ready
                for subset in endpoints.subsets
                for is_ready, group in ((True, subset.addresses), (False, subset.notReadyAddresses))
                for address in group
                if address.targetRef is not None
            }
            assert listed == await ready_pods(c)
            await c.clock.settle()
            assert [
                event.reason for event in (await c.client.for_kind(Event).list()).items if event.type == "Warning"
            ] == []
