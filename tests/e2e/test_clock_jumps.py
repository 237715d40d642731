"""The wall clock of the machine is set back or forward by an hour: timers still fire, and nodes stay ready."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.coordination_v1 import Lease
from sampan.api.types.core_v1 import Node, Pod
from sampan.api.values import times
from sampan.cluster.leadership import LeadershipConfig
from sampan.host.clock import VirtualClock
from sampan.machinery.client import Selection
from sampan.testing import Cluster

HOUR = 3600.0
NODES = ("node-0", "node-1")
JUMPS = pytest.mark.parametrize("jump_s", [-HOUR, HOUR], ids=["back", "forward"])
Scenario = Callable[[Cluster, VirtualClock], Awaitable[None]]


def run_scenario(scenario: Scenario) -> None:
    async def main() -> None:
        clock = VirtualClock()
        async with Cluster(clock=clock, nodes=len(NODES), leader_election=LeadershipConfig()) as cluster:
            await clock.advance(30)
            await scenario(cluster, clock)

    asyncio.run(main())


def set_clock(clock: VirtualClock, jump_s: float) -> None:
    clock.set_wall_clock(clock.now() + jump_s)


async def leases(cluster: Cluster, namespace: str) -> dict[str, Any]:
    leases = (await cluster.client.for_kind(Lease).list(Selection(namespace=namespace))).items
    return {lease.metadata.name: lease.spec for lease in leases}


async def create_pod(cluster: Cluster, name: str, annotations: dict[str, str]) -> None:
    annotations = {f"hollow.sampan.dev/{key}": value for key, value in annotations.items()}
    spec = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 30}
    meta = {"name": name, "namespace": "default", "annotations": annotations}
    await cluster.client.for_kind(Pod).create(codec.from_value({"metadata": meta, "spec": spec}, Pod))


async def restarts(cluster: Cluster, name: str) -> int:
    pod = await cluster.client.for_kind(Pod).get(name, "default")
    return sum(status.restartCount for status in pod.status.containerStatuses)


@JUMPS
def test_leases_are_renewed_and_nodes_stay_ready(jump_s: float) -> None:
    async def scenario(cluster: Cluster, clock: VirtualClock) -> None:
        before = await leases(cluster, "kube-system")
        assert {"kube-controller-manager", "kube-scheduler"} <= before.keys()
        set_clock(clock, jump_s)
        for _ in range(6):
            await clock.advance(20)
            for namespace in ("kube-node-lease", "kube-system"):
                for name, spec in (await leases(cluster, namespace)).items():
                    if name in (*NODES, *before) and not name.startswith("apiserver"):
                        age_s = clock.now() - times.parse_time(spec.renewTime)
                        assert 0 <= age_s <= 15, f"lease {name} was renewed {age_s} s ago"
            for node in (await cluster.client.for_kind(Node).list()).items:
                ready = next(condition for condition in node.status.conditions if condition.type == "Ready")
                assert ready.status == "True", node.metadata.name
        after = await leases(cluster, "kube-system")
        for name in ("kube-controller-manager", "kube-scheduler"):
            assert after[name].leaseTransitions == before[name].leaseTransitions, f"{name} changed its leader"

    run_scenario(scenario)


@JUMPS
def test_a_container_in_back_off_is_restarted(jump_s: float) -> None:
    async def scenario(cluster: Cluster, clock: VirtualClock) -> None:
        await create_pod(cluster, "crashing", {"run": "1s", "exit-code": "1"})
        await clock.advance(15)
        before = await restarts(cluster, "crashing")
        assert before > 0
        set_clock(clock, jump_s)
        await clock.advance(60)
        assert await restarts(cluster, "crashing") > before

    run_scenario(scenario)


@JUMPS
def test_deleted_pod_terminates_within_its_grace_period(jump_s: float) -> None:
    async def scenario(cluster: Cluster, clock: VirtualClock) -> None:
        await create_pod(cluster, "slow", {"stop": "20s"})
        await clock.advance(5)
        await cluster.client.for_kind(Pod).delete("slow", "default")
        await clock.advance(5)
        set_clock(clock, jump_s)
        await clock.advance(20)
        assert not (await cluster.client.for_kind(Pod).list(Selection(namespace="default"))).items

    run_scenario(scenario)
