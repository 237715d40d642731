"""Pods on hollow nodes, end to end on the virtual clock."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from sampan.api.types.coordination_v1 import Lease
from sampan.api.types.core_v1 import (
    Container,
    Event,
    Node,
    Pod,
    PodReadinessGate,
    Probe,
    ResourceRequirements,
    TCPSocketAction,
)
from sampan.kubelet.hollow_nodes import POWER, hollow_node
from sampan.machinery import errors
from sampan.machinery.client import Delete
from sampan.machinery.informer import InformerFactory
from sampan.testing import builders
from tests.controllers.cluster import Cluster, cluster

HOLLOW = "hollow.sampan.dev/"
ACCOUNTS = "serviceaccount-controller"


def pod(name: str = "p", *, node: str = "node-0", **said: str) -> Any:
    made = builders.pod(name, node=node, namespace="default")
    made.metadata.annotations = {HOLLOW + key.replace("_", "-"): text for key, text in said.items()}
    return made


async def create(c: Cluster, made: Pod) -> Any:
    await c.client.of(Pod).create(made)
    await c.clock.settle()
    return await get(c, made.metadata.name)


async def get(c: Cluster, name: str = "p") -> Any:
    return await c.client.of(Pod).get(name, "default")


async def later(c: Cluster, seconds: float, name: str = "p") -> Any:
    await c.clock.advance(seconds)
    return await get(c, name)


def conditions(found: Pod) -> Mapping[str, tuple[str, str]]:
    return {condition.type: (condition.status, condition.reason) for condition in found.status.conditions}


async def events(c: Cluster, reason: str) -> list[Event]:
    await c.clock.settle()
    found = await c.client.of(Event).list()
    return [event for event in found.items if event.reason == reason]


def run(test: Any, *nodes: str) -> None:
    async def main() -> None:
        async with cluster() as c, c.running(ACCOUNTS), c.nodes(*(nodes or ("node-0",))):
            await test(c)

    asyncio.run(main())


def test_runs_at_once_and_for_ever() -> None:
    async def test(c: Cluster) -> None:
        found = await create(c, pod())
        assert found.status.phase == "Running"
        assert found.status.podIP
        assert found.status.hostIP
        assert found.status.observedGeneration == 1
        assert conditions(found) == {
            "PodReadyToStartContainers": ("True", ""),
            "Initialized": ("True", ""),
            "Ready": ("True", ""),
            "ContainersReady": ("True", ""),
            "PodScheduled": ("True", ""),
        }
        version = found.metadata.resourceVersion
        found = await later(c, 3600)
        assert found.metadata.resourceVersion == version

    run(test)


def test_starts_and_gets_ready_late() -> None:
    async def test(c: Cluster) -> None:
        found = await create(c, pod(start="2s", ready="3s"))
        assert found.status.phase == "Pending"
        assert found.status.containerStatuses[0].state.waiting.reason == "ContainerCreating"
        found = await later(c, 2)
        assert found.status.phase == "Running"
        assert conditions(found)["Ready"] == ("False", "ContainersNotReady")
        found = await later(c, 3)
        assert conditions(found)["Ready"] == ("True", "")

    run(test)


def test_what_ends_at_once_has_had_an_address() -> None:
    async def test(c: Cluster) -> None:
        made = pod(run="0s")
        made.spec.restartPolicy = "Never"
        found = await create(c, made)
        assert (found.status.phase, bool(found.status.podIP), len(found.status.podIPs)) == ("Succeeded", True, 1)

    run(test)


def test_probes_wait_as_they_say() -> None:
    async def test(c: Cluster) -> None:
        made = pod()
        made.spec.containers[0].readinessProbe = Probe(initialDelaySeconds=7, tcpSocket=TCPSocketAction(port=80))
        found = await create(c, made)
        assert conditions(found)["Ready"][0] == "False"
        assert conditions(await later(c, 7))["Ready"][0] == "True"

    run(test)


@pytest.mark.parametrize(
    ("policy", "code", "phase", "reason"),
    [
        ("Never", "0", "Succeeded", "Completed"),
        ("Never", "3", "Failed", "Error"),
        ("OnFailure", "0", "Succeeded", "Completed"),
    ],
)
def test_ends(policy: str, code: str, phase: str, reason: str) -> None:
    async def test(c: Cluster) -> None:
        made = pod(run="5s", exit_code=code)
        made.spec.restartPolicy = policy
        found = await create(c, made)
        assert found.status.phase == "Running"
        found = await later(c, 5)
        assert found.status.phase == phase
        ended = found.status.containerStatuses[0].state.terminated
        assert (ended.exitCode, ended.reason) == (int(code), reason)
        assert conditions(found)["Ready"] == ("False", "PodCompleted" if phase == "Succeeded" else "PodFailed")
        assert conditions(found)["PodReadyToStartContainers"][0] == "False"

    run(test)


def test_out_of_memory() -> None:
    async def test(c: Cluster) -> None:
        made = pod(run="1s", reason="OOMKilled")
        made.spec.restartPolicy = "Never"
        await create(c, made)
        ended = (await later(c, 1)).status.containerStatuses[0].state.terminated
        assert (ended.exitCode, ended.reason) == (137, "OOMKilled")

    run(test)


def test_fails_and_backs_off() -> None:
    """The first restart is at once, the next after 10, 20, 40 s."""

    async def test(c: Cluster) -> None:
        await create(c, pod(run="1s", exit_code="1"))
        found = await later(c, 1)
        assert found.status.containerStatuses[0].restartCount == 1
        assert found.status.containerStatuses[0].state.running is not None
        found = await later(c, 1)
        status = found.status.containerStatuses[0]
        assert (found.status.phase, status.ready) == ("Running", False)
        assert status.state.waiting.reason == "CrashLoopBackOff"
        assert status.state.waiting.message == (
            f"back-off 10s restarting failed container=main pod=p_default({found.metadata.uid})"
        )
        assert status.lastState.terminated.exitCode == 1
        found = await later(c, 9)
        assert found.status.containerStatuses[0].restartCount == 1
        found = await later(c, 1)
        assert found.status.containerStatuses[0].restartCount == 2
        found = await later(c, 1 + 19)
        assert "back-off 20s" in found.status.containerStatuses[0].state.waiting.message
        assert (await later(c, 1)).status.containerStatuses[0].restartCount == 3
        (event,) = await events(c, "BackOff")
        assert event.message == f"Back-off restarting failed container main in pod p_default({found.metadata.uid})"

    run(test)


def test_back_off_is_forgotten_after_ten_minutes() -> None:
    async def test(c: Cluster) -> None:
        await create(c, pod(run="11m", exit_code="1"))
        for restarts in range(1, 5):
            found = await later(c, 660)
            assert found.status.containerStatuses[0].restartCount == restarts
            assert found.status.containerStatuses[0].state.running is not None

    run(test)


def test_exit_codes_in_turn() -> None:
    async def test(c: Cluster) -> None:
        made = pod(run="1s", exit_code="1,0")
        made.spec.restartPolicy = "OnFailure"
        await create(c, made)
        assert (await later(c, 1)).status.phase == "Running"
        assert (await later(c, 1)).status.phase == "Succeeded"

    run(test)


def test_image_that_cannot_be_pulled() -> None:
    async def test(c: Cluster) -> None:
        found = await create(c, pod(pull_error="not found"))
        waiting = found.status.containerStatuses[0].state.waiting
        assert (found.status.phase, waiting.reason, waiting.message) == ("Pending", "ErrImagePull", "not found")
        assert conditions(found)["PodReadyToStartContainers"][0] == "True"
        await c.client.of(Pod).patch("p", {"metadata": {"labels": {"a": "b"}}}, "default")
        found = await later(c, 1)
        waiting = found.status.containerStatuses[0].state.waiting
        assert waiting.reason == "ImagePullBackOff"
        assert waiting.message == 'Back-off pulling image "registry.k8s.io/pause:3.10": ErrImagePull: not found'
        found = await later(c, 9)
        assert found.status.containerStatuses[0].state.waiting.reason == "ErrImagePull"
        found = await later(c, 10)
        assert found.status.containerStatuses[0].state.waiting.reason == "ImagePullBackOff"
        assert [event.message for event in await events(c, "Failed")] == [
            'Failed to pull image "registry.k8s.io/pause:3.10": not found',
            "Error: ErrImagePull",
        ]

    run(test)


def test_init_containers_and_sidecars_in_order() -> None:
    async def test(c: Cluster) -> None:
        made = pod(**{"run.first": "2s", "run.main": "5s"})
        made.spec.restartPolicy = "Never"
        made.spec.initContainers = [
            Container(name="first", image="i"),
            Container(name="side", image="i", restartPolicy="Always"),
        ]
        found = await create(c, made)
        first, side = found.status.initContainerStatuses
        assert first.state.running is not None
        assert side.state.waiting.reason == "PodInitializing"
        assert conditions(found)["Initialized"] == ("False", "ContainersNotInitialized")
        assert found.status.phase == "Pending"
        found = await later(c, 2)
        first, side = found.status.initContainerStatuses
        assert first.ready
        assert first.state.terminated.exitCode == 0
        assert side.started
        assert side.ready
        assert found.status.phase == "Running"
        found = await later(c, 5)
        assert found.status.phase == "Succeeded"
        assert found.status.initContainerStatuses[1].state.terminated is not None

    run(test)


def test_init_container_that_fails_ends_a_pod_that_never_restarts() -> None:
    async def test(c: Cluster) -> None:
        made = pod(**{"exit-code.first": "1"})
        made.spec.restartPolicy = "Never"
        made.spec.initContainers = [Container(name="first", image="i")]
        found = await create(c, made)
        assert found.status.phase == "Failed"
        assert found.status.containerStatuses[0].state.waiting.reason == "PodInitializing"

    run(test)


def test_graceful_deletion() -> None:
    async def test(c: Cluster) -> None:
        await create(c, pod(stop="10s"))
        await c.client.of(Pod).delete("p", "default")
        found = await later(c, 9)
        assert (found.status.phase, found.metadata.deletionGracePeriodSeconds) == ("Running", 30)
        await c.clock.advance(1)
        with pytest.raises(errors.NotFound):
            await get(c)
        (event,) = await events(c, "Killing")
        assert event.message == "Stopping container main"

    run(test)


def test_killed_after_the_grace() -> None:
    async def test(c: Cluster) -> None:
        made = pod(stop="forever")
        made.metadata.finalizers = ["example.com/wait"]
        await create(c, made)
        await c.client.of(Pod).delete("p", "default", options=Delete(grace_period_s=5))
        assert (await later(c, 4)).status.phase == "Running"
        found = await later(c, 1)
        assert found.status.phase == "Failed"
        assert found.status.containerStatuses[0].state.terminated.exitCode == 137
        assert found.metadata.deletionGracePeriodSeconds == 0

    run(test)


def test_removed_by_force() -> None:
    async def test(c: Cluster) -> None:
        first = await create(c, pod(stop="forever"))
        await c.client.of(Pod).delete("p", "default", options=Delete(grace_period_s=0))
        await c.clock.settle()
        with pytest.raises(errors.NotFound):
            await get(c)
        second = await create(c, pod())
        assert second.status.phase == "Running"
        assert second.metadata.uid != first.metadata.uid

    run(test)


def test_active_deadline() -> None:
    async def test(c: Cluster) -> None:
        made = pod()
        made.spec.activeDeadlineSeconds = 30
        await create(c, made)
        assert (await later(c, 29)).status.phase == "Running"
        found = await later(c, 1)
        assert (found.status.phase, found.status.reason) == ("Failed", "DeadlineExceeded")
        assert found.status.message == "Pod was active on the node longer than the specified deadline"

    run(test)


def test_readiness_gates() -> None:
    async def test(c: Cluster) -> None:
        made = pod()
        made.spec.readinessGates = [PodReadinessGate(conditionType="example.com/lb")]
        found = await create(c, made)
        assert conditions(found)["Ready"] == ("False", "ReadinessGatesNotReady")
        assert conditions(found)["ContainersReady"] == ("True", "")
        patch = {"status": {"conditions": [{"type": "example.com/lb", "status": "True"}]}}
        await c.client.of(Pod).patch("p", patch, "default", subresource="status")
        assert conditions(await later(c, 0))["Ready"] == ("True", "")

    run(test)


def test_too_much_for_the_node() -> None:
    async def test(c: Cluster) -> None:
        made = pod()
        made.spec.containers[0].resources = ResourceRequirements(requests={"cpu": "33"})
        found = await create(c, made)
        assert (found.status.phase, found.status.reason) == ("Failed", "OutOfcpu")
        assert found.status.message == (
            "Pod was rejected: Node didn't have enough resource: cpu, requested: 33000, used: 0, capacity: 32000"
        )
        (event,) = await events(c, "OutOfcpu")
        assert event.type == "Warning"

    run(test)


def test_addresses_are_unique_and_of_the_nodes_range() -> None:
    async def test(c: Cluster) -> None:
        await c.client.of(Node).patch("node-1", {"spec": {"podCIDR": "10.1.2.0/24", "podCIDRs": ["10.1.2.0/24"]}})
        await c.clock.settle()
        found = [(await create(c, pod(f"p{i}", node=f"node-{i % 2}"))).status.podIP for i in range(6)]
        assert len(set(found)) == 6
        assert [ip.rpartition(".")[0] for ip in found[1::2]] == ["10.1.2"] * 3

    run(test, "node-0", "node-1")


def test_a_node_that_is_switched_off_says_nothing_and_restarts_its_pods_when_it_comes_back() -> None:
    async def test(c: Cluster) -> None:
        await create(c, pod())
        nodes = c.client.of(Node)
        await nodes.patch("node-0", {"metadata": {"annotations": {POWER: "off"}}})
        await c.clock.settle()
        revision = await c.revision()
        await c.client.of(Pod).delete("p", "default")
        await c.clock.advance(600)
        assert await c.revision() == revision + 1
        await nodes.patch("node-0", {"metadata": {"annotations": {POWER: None}}})
        await c.clock.advance(60)
        with pytest.raises(errors.NotFound):
            await get(c)
        assert await events(c, "Rebooted")

    run(test)


def test_containers_are_restarted_after_a_reboot() -> None:
    async def test(c: Cluster) -> None:
        await create(c, pod())
        nodes = c.client.of(Node)
        await nodes.patch("node-0", {"metadata": {"annotations": {POWER: "off"}}})
        await c.clock.advance(100)
        await nodes.patch("node-0", {"metadata": {"annotations": {POWER: None}}})
        found = await later(c, 20)
        status = found.status.containerStatuses[0]
        assert (found.status.phase, status.restartCount, status.ready) == ("Running", 1, True)
        assert status.lastState.terminated.exitCode == 255

    run(test)


async def test_another_process_goes_on_with_what_ran() -> None:
    async with cluster() as c, c.running(ACCOUNTS):
        async with c.nodes("node-0"):
            before = await create(c, pod(run="100s"))
            await c.clock.advance(50)
        async with c.nodes("node-0"):
            found = await later(c, 49)
            assert found.status == before.status
            assert (await later(c, 1)).status.containerStatuses[0].restartCount == 1


def test_a_node_made_by_anybody() -> None:
    async def test(c: Cluster) -> None:
        made = hollow_node("big", labels={"zone": "a"}, capacity={"cpu": "128"})
        await c.client.of(Node).create(made)
        await c.clock.settle()
        found = await c.client.of(Node).get("big")
        assert found.status.allocatable["cpu"] == "128"
        assert found.metadata.labels["zone"] == "a"
        assert found.status.conditions[-1].reason == "KubeletReady"
        assert (await create(c, pod(node="big"))).status.phase == "Running"
        await c.client.of(Node).delete("big")
        await c.clock.settle()
        lease = await c.client.of(Lease).get("big", "kube-node-lease")
        await c.clock.advance(30)
        assert await c.client.of(Lease).get("big", "kube-node-lease") == lease

    run(test)


def test_deleted_before_it_ran() -> None:
    async def test(c: Cluster) -> None:
        made = pod(start="1m", **{"run.first": "forever"})
        made.metadata.finalizers = ["example.com/wait"]
        made.spec.initContainers = [Container(name="first", image="i")]
        await create(c, made)
        await c.client.of(Pod).delete("p", "default")
        found = await later(c, 30)
        assert found.status.phase == "Failed"
        assert found.status.initContainerStatuses[0].state.terminated.exitCode == 143
        assert found.status.containerStatuses[0].state.waiting.reason == "PodInitializing"

    run(test)


async def test_nothing_goes_back_whatever_happens() -> None:
    """A hundred pods that start late, fail, end and are deleted while nodes come and go."""

    random = Random(7)
    seen: dict[str, Pod] = {}
    faults: list[str] = []
    async with cluster() as c, c.running(ACCOUNTS), c.nodes(*NODES):
        informers = InformerFactory(client=c.client)
        informers.of(Pod).subscribe(lambda old, new: faults.extend(course_faults(seen, new)))
        async with informers:
            await informers.wait_synced()
            for number in range(60):
                await c.client.of(Pod).create(random_pod(random, number))
                await c.clock.advance(random.random() * 3)
                if random.random() < 0.3:
                    with suppress(errors.NotFound):
                        await c.client.of(Pod).delete(f"p{random.randrange(number + 1)}", "default")
                if random.random() < 0.2:
                    power = {POWER: random.choice(["off", None])}
                    await c.client.of(Node).patch(random.choice(NODES), {"metadata": {"annotations": power}})
            for name in NODES:
                await c.client.of(Node).patch(name, {"metadata": {"annotations": {POWER: None}}})
            await c.clock.advance(900)
            assert faults == []
            for found in informers.of(Pod).lister:
                assert found.metadata.deletionTimestamp is None
                assert found.status.phase in ("Running", "Succeeded", "Failed")


NODES = ("node-0", "node-1", "node-2")
ORDER = {"": 0, "Pending": 0, "Running": 1, "Succeeded": 2, "Failed": 2}


def random_pod(random: Random, number: int) -> Pod:
    times = ["0s", "1s..4s", "10s"]
    made: Pod = pod(
        f"p{number}",
        node=random.choice(NODES),
        start=random.choice(times),
        stop=random.choice(times),
        **{"run.main": random.choice([*times, "forever"]), "exit-code.main": random.choice(["0", "1", "1,0"])},
    )
    made.spec.restartPolicy = random.choice(["Always", "OnFailure", "Never"])
    if random.random() < 0.3:
        made.spec.initContainers = [Container(name="first", image="i")]
    return made


def course_faults(seen: dict[str, Pod], new: Pod | None) -> Iterator[str]:
    """How the pod has gone back since it was last seen. Only one with init containers may be pending again: its machine
    was switched off, and they have their turn anew."""
    old = seen.get(new.metadata.uid) if new is not None else None
    if new is None or old is None:
        if new is not None:
            seen[new.metadata.uid] = new
        return
    seen[new.metadata.uid] = new
    name, before, after = new.metadata.name, old.status, new.status
    if before.phase in ("Succeeded", "Failed") and after.phase != before.phase:
        yield f"{name}: {before.phase} became {after.phase}"
    if ORDER[after.phase] < ORDER[before.phase] and not new.spec.initContainers:
        yield f"{name}: {before.phase} became {after.phase}: {before.containerStatuses} {after.containerStatuses}"
    if before.startTime not in (None, after.startTime):
        yield f"{name}: began at {before.startTime}, then at {after.startTime}"
    counts = {found.name: found.restartCount for found in before.containerStatuses}
    for found in after.containerStatuses:
        if found.restartCount < counts.get(found.name, 0):
            yield f"{name}: {found.restartCount} restarts after {counts[found.name]}"
