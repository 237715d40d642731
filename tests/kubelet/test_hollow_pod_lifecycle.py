"""Pods on hollow nodes, end to end on the virtual clock."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from sampan.api.limits import HOLLOW_ANNOTATION_ERRORS, HOLLOW_CONTAINERS
from sampan.api.types.coordination_v1 import Lease
from sampan.api.types.core_v1 import (
    Container,
    EnvVar,
    Node,
    Pod,
    PodReadinessGate,
    Probe,
    ResourceRequirements,
    TCPSocketAction,
)
from sampan.kubelet.hollow_nodes import POWER, hollow_node
from sampan.machinery import errors
from sampan.machinery.client import DeleteParameters
from sampan.machinery.informer import InformerFactory
from tests.controllers.cluster import Cluster, cluster
from tests.kubelet.hollow_pods import ACCOUNTS, create, events, get, pod, run


async def get_after(c: Cluster, seconds: float, name: str = "p") -> Any:
    await c.clock.advance(seconds)
    return await get(c, name)


def conditions(pod: Pod) -> Mapping[str, tuple[str, str]]:
    return {condition.type: (condition.status, condition.reason) for condition in pod.status.conditions}


def test_pod_runs_at_once_and_keeps_running() -> None:
    async def test(c: Cluster) -> None:
        pod_ = await create(c, pod())
        assert pod_.status.phase == "Running"
        assert pod_.status.podIP
        assert pod_.status.hostIP
        assert pod_.status.observedGeneration == 1
        assert conditions(pod_) == {
            "PodReadyToStartContainers": ("True", ""),
            "Initialized": ("True", ""),
            "Ready": ("True", ""),
            "ContainersReady": ("True", ""),
            "PodScheduled": ("True", ""),
        }
        version = pod_.metadata.resourceVersion
        pod_ = await get_after(c, 3600)
        assert pod_.metadata.resourceVersion == version

    run(test)


def test_start_and_ready_delays() -> None:
    async def test(c: Cluster) -> None:
        pod_ = await create(c, pod(start="2s", ready="3s"))
        assert pod_.status.phase == "Pending"
        assert pod_.status.containerStatuses[0].state.waiting.reason == "ContainerCreating"
        pod_ = await get_after(c, 2)
        assert pod_.status.phase == "Running"
        assert conditions(pod_)["Ready"] == ("False", "ContainersNotReady")
        pod_ = await get_after(c, 3)
        assert conditions(pod_)["Ready"] == ("True", "")

    run(test)


def test_events_of_a_container_are_recorded_when_it_is_pulled_and_started() -> None:
    async def test(c: Cluster) -> None:
        await create(c, pod(pull="30s", start="2s"))
        assert [event.message for event in await events(c, "Pulling")] == ['Pulling image "registry.k8s.io/pause:3.10"']
        assert [await events(c, reason) for reason in ("Pulled", "Created", "Started")] == [[], [], []]
        assert (await get_after(c, 32)).status.phase == "Running"
        assert [event.message for event in await events(c, "Pulled")] == [
            'Successfully pulled image "registry.k8s.io/pause:3.10" in 32s (32s including waiting). '
            "Image size: 0 bytes."
        ]
        assert [len(await events(c, reason)) for reason in ("Created", "Started")] == [1, 1]

    run(test)


def test_pod_that_exits_at_once_has_a_pod_ip() -> None:
    async def test(c: Cluster) -> None:
        manifest = pod(run="0s")
        manifest.spec.restartPolicy = "Never"
        pod_ = await create(c, manifest)
        assert (pod_.status.phase, bool(pod_.status.podIP), len(pod_.status.podIPs)) == ("Succeeded", True, 1)

    run(test)


def test_readiness_waits_for_initial_delay_seconds() -> None:
    async def test(c: Cluster) -> None:
        manifest = pod()
        manifest.spec.containers[0].readinessProbe = Probe(initialDelaySeconds=7, tcpSocket=TCPSocketAction(port=80))
        pod_ = await create(c, manifest)
        assert conditions(pod_)["Ready"][0] == "False"
        assert conditions(await get_after(c, 7))["Ready"][0] == "True"

    run(test)


@pytest.mark.parametrize(
    ("policy", "code", "phase", "reason"),
    [
        ("Never", "0", "Succeeded", "Completed"),
        ("Never", "3", "Failed", "Error"),
        ("OnFailure", "0", "Succeeded", "Completed"),
    ],
)
def test_pod_phase_after_container_exit(policy: str, code: str, phase: str, reason: str) -> None:
    async def test(c: Cluster) -> None:
        manifest = pod(run="5s", exit_code=code)
        manifest.spec.restartPolicy = policy
        pod_ = await create(c, manifest)
        assert pod_.status.phase == "Running"
        pod_ = await get_after(c, 5)
        assert pod_.status.phase == phase
        terminated = pod_.status.containerStatuses[0].state.terminated
        assert (terminated.exitCode, terminated.reason) == (int(code), reason)
        assert conditions(pod_)["Ready"] == ("False", "PodCompleted" if phase == "Succeeded" else "PodFailed")
        assert conditions(pod_)["PodReadyToStartContainers"][0] == "False"

    run(test)


def test_oom_killed_container() -> None:
    async def test(c: Cluster) -> None:
        manifest = pod(run="1s", reason="OOMKilled")
        manifest.spec.restartPolicy = "Never"
        await create(c, manifest)
        terminated = (await get_after(c, 1)).status.containerStatuses[0].state.terminated
        assert (terminated.exitCode, terminated.reason) == (137, "OOMKilled")

    run(test)


def test_failing_container_restarts_with_back_off() -> None:
    """The first restart is immediate, the next ones follow after 10, 20 and 40 s."""

    async def test(c: Cluster) -> None:
        await create(c, pod(run="1s", exit_code="1"))
        pod_ = await get_after(c, 1)
        assert pod_.status.containerStatuses[0].restartCount == 1
        assert pod_.status.containerStatuses[0].state.running is not None
        pod_ = await get_after(c, 1)
        status = pod_.status.containerStatuses[0]
        assert (pod_.status.phase, status.ready) == ("Running", False)
        assert status.state.waiting.reason == "CrashLoopBackOff"
        assert status.state.waiting.message == (
            f"back-off 10s restarting failed container=main pod=p_default({pod_.metadata.uid})"
        )
        assert status.lastState.terminated.exitCode == 1
        pod_ = await get_after(c, 9)
        assert pod_.status.containerStatuses[0].restartCount == 1
        pod_ = await get_after(c, 1)
        assert pod_.status.containerStatuses[0].restartCount == 2
        pod_ = await get_after(c, 1 + 19)
        assert "back-off 20s" in pod_.status.containerStatuses[0].state.waiting.message
        assert (await get_after(c, 1)).status.containerStatuses[0].restartCount == 3
        (event,) = await events(c, "BackOff")
        assert event.message == f"Back-off restarting failed container main in pod p_default({pod_.metadata.uid})"

    run(test)


def test_back_off_is_reset_after_ten_minutes() -> None:
    async def test(c: Cluster) -> None:
        await create(c, pod(run="11m", exit_code="1"))
        for restarts in range(1, 5):
            pod_ = await get_after(c, 660)
            assert pod_.status.containerStatuses[0].restartCount == restarts
            assert pod_.status.containerStatuses[0].state.running is not None

    run(test)


def test_exit_codes_are_used_in_turn() -> None:
    async def test(c: Cluster) -> None:
        manifest = pod(run="1s", exit_code="1,0")
        manifest.spec.restartPolicy = "OnFailure"
        await create(c, manifest)
        assert (await get_after(c, 1)).status.phase == "Running"
        assert (await get_after(c, 1)).status.phase == "Succeeded"

    run(test)


def test_image_pull_error_and_back_off() -> None:
    async def test(c: Cluster) -> None:
        pod_ = await create(c, pod(pull_error="not found"))
        waiting = pod_.status.containerStatuses[0].state.waiting
        assert (pod_.status.phase, waiting.reason, waiting.message) == ("Pending", "ErrImagePull", "not found")
        assert conditions(pod_)["PodReadyToStartContainers"][0] == "True"
        await c.client.for_kind(Pod).patch("p", {"metadata": {"labels": {"a": "b"}}}, "default")
        pod_ = await get_after(c, 1)
        waiting = pod_.status.containerStatuses[0].state.waiting
        assert waiting.reason == "ImagePullBackOff"
        assert waiting.message == 'Back-off pulling image "registry.k8s.io/pause:3.10": ErrImagePull: not found'
        pod_ = await get_after(c, 9)
        assert pod_.status.containerStatuses[0].state.waiting.reason == "ErrImagePull"
        pod_ = await get_after(c, 10)
        assert pod_.status.containerStatuses[0].state.waiting.reason == "ImagePullBackOff"
        assert [event.message for event in await events(c, "Failed")] == [
            'Failed to pull image "registry.k8s.io/pause:3.10": not found',
            "Error: ErrImagePull",
        ]

    run(test)


def test_init_containers_and_sidecars_in_order() -> None:
    async def test(c: Cluster) -> None:
        manifest = pod(**{"run.first": "2s", "run.main": "5s"})
        manifest.spec.restartPolicy = "Never"
        manifest.spec.initContainers = [
            Container(name="first", image="i"),
            Container(name="side", image="i", restartPolicy="Always"),
        ]
        pod_ = await create(c, manifest)
        first, side = pod_.status.initContainerStatuses
        assert first.state.running is not None
        assert side.state.waiting.reason == "PodInitializing"
        assert conditions(pod_)["Initialized"] == ("False", "ContainersNotInitialized")
        assert pod_.status.phase == "Pending"
        pod_ = await get_after(c, 2)
        first, side = pod_.status.initContainerStatuses
        assert first.ready
        assert first.state.terminated.exitCode == 0
        assert side.started
        assert side.ready
        assert pod_.status.phase == "Running"
        pod_ = await get_after(c, 5)
        assert pod_.status.phase == "Succeeded"
        assert pod_.status.initContainerStatuses[1].state.terminated is not None

    run(test)


def test_init_container_that_fails_ends_a_pod_that_never_restarts() -> None:
    async def test(c: Cluster) -> None:
        manifest = pod(**{"exit-code.first": "1"})
        manifest.spec.restartPolicy = "Never"
        manifest.spec.initContainers = [Container(name="first", image="i")]
        pod_ = await create(c, manifest)
        assert pod_.status.phase == "Failed"
        assert pod_.status.containerStatuses[0].state.waiting.reason == "PodInitializing"

    run(test)


def test_graceful_deletion() -> None:
    async def test(c: Cluster) -> None:
        await create(c, pod(stop="10s"))
        await c.client.for_kind(Pod).delete("p", "default")
        pod_ = await get_after(c, 9)
        assert (pod_.status.phase, pod_.metadata.deletionGracePeriodSeconds) == ("Running", 30)
        await c.clock.advance(1)
        with pytest.raises(errors.NotFound):
            await get(c)
        (event,) = await events(c, "Killing")
        assert event.message == "Stopping container main"

    run(test)


def test_container_is_killed_after_the_grace_period() -> None:
    async def test(c: Cluster) -> None:
        manifest = pod(stop="forever")
        manifest.metadata.finalizers = ["example.com/wait"]
        await create(c, manifest)
        await c.client.for_kind(Pod).delete("p", "default", options=DeleteParameters(grace_period_s=5))
        assert (await get_after(c, 4)).status.phase == "Running"
        pod_ = await get_after(c, 1)
        assert pod_.status.phase == "Failed"
        assert pod_.status.containerStatuses[0].state.terminated.exitCode == 137
        assert pod_.metadata.deletionGracePeriodSeconds == 0

    run(test)


def test_force_deletion_removes_the_pod_at_once() -> None:
    async def test(c: Cluster) -> None:
        first = await create(c, pod(stop="forever"))
        await c.client.for_kind(Pod).delete("p", "default", options=DeleteParameters(grace_period_s=0))
        await c.clock.settle()
        with pytest.raises(errors.NotFound):
            await get(c)
        second = await create(c, pod())
        assert second.status.phase == "Running"
        assert second.metadata.uid != first.metadata.uid

    run(test)


def test_active_deadline() -> None:
    async def test(c: Cluster) -> None:
        manifest = pod()
        manifest.spec.activeDeadlineSeconds = 30
        await create(c, manifest)
        assert (await get_after(c, 29)).status.phase == "Running"
        pod_ = await get_after(c, 1)
        assert (pod_.status.phase, pod_.status.reason) == ("Failed", "DeadlineExceeded")
        assert pod_.status.message == "Pod was active on the node longer than the specified deadline"

    run(test)


def test_readiness_gates() -> None:
    async def test(c: Cluster) -> None:
        manifest = pod()
        manifest.spec.readinessGates = [PodReadinessGate(conditionType="example.com/lb")]
        pod_ = await create(c, manifest)
        assert conditions(pod_)["Ready"] == ("False", "ReadinessGatesNotReady")
        assert conditions(pod_)["ContainersReady"] == ("True", "")
        patch = {"status": {"conditions": [{"type": "example.com/lb", "status": "True"}]}}
        await c.client.for_kind(Pod).patch("p", patch, "default", subresource="status")
        assert conditions(await get_after(c, 0))["Ready"] == ("True", "")

    run(test)


def test_pod_that_exceeds_allocatable_is_rejected() -> None:
    async def test(c: Cluster) -> None:
        manifest = pod()
        manifest.spec.containers[0].resources = ResourceRequirements(requests={"cpu": "33"})
        pod_ = await create(c, manifest)
        assert (pod_.status.phase, pod_.status.reason) == ("Failed", "OutOfcpu")
        assert pod_.status.message == (
            "Pod was rejected: Node didn't have enough resource: cpu, requested: 33000, used: 0, capacity: 32000"
        )
        (event,) = await events(c, "OutOfcpu")
        assert event.type == "Warning"

    run(test)


def test_pod_ips_are_unique_and_within_the_pod_cidr() -> None:
    async def test(c: Cluster) -> None:
        await c.client.for_kind(Node).patch("node-1", {"spec": {"podCIDR": "10.1.2.0/24", "podCIDRs": ["10.1.2.0/24"]}})
        await c.clock.settle()
        ips = [(await create(c, pod(f"p{i}", node=f"node-{i % 2}"))).status.podIP for i in range(6)]
        assert len(set(ips)) == 6
        assert [ip.rpartition(".")[0] for ip in ips[1::2]] == ["10.1.2"] * 3

    run(test, "node-0", "node-1")


def test_node_writes_nothing_while_switched_off_and_removes_deleted_pods_later() -> None:
    async def test(c: Cluster) -> None:
        await create(c, pod())
        nodes = c.client.for_kind(Node)
        await nodes.patch("node-0", {"metadata": {"annotations": {POWER: "off"}}})
        await c.clock.settle()
        revision = await c.revision()
        await c.client.for_kind(Pod).delete("p", "default")
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
        nodes = c.client.for_kind(Node)
        await nodes.patch("node-0", {"metadata": {"annotations": {POWER: "off"}}})
        await c.clock.advance(100)
        await nodes.patch("node-0", {"metadata": {"annotations": {POWER: None}}})
        pod_ = await get_after(c, 20)
        status = pod_.status.containerStatuses[0]
        assert (pod_.status.phase, status.restartCount, status.ready) == ("Running", 1, True)
        assert status.lastState.terminated.exitCode == 255

    run(test)


async def test_restarted_fleet_continues_running_pods() -> None:
    async with cluster() as c, c.running(ACCOUNTS):
        async with c.nodes("node-0"):
            before = await create(c, pod(run="100s"))
            await c.clock.advance(50)
        async with c.nodes("node-0"):
            pod_ = await get_after(c, 49)
            assert pod_.status == before.status
            assert (await get_after(c, 1)).status.containerStatuses[0].restartCount == 1


def test_node_created_through_the_api_becomes_ready_and_runs_pods() -> None:
    async def test(c: Cluster) -> None:
        manifest = hollow_node("big", labels={"zone": "a"}, capacity={"cpu": "128"})
        await c.client.for_kind(Node).create(manifest)
        await c.clock.settle()
        node = await c.client.for_kind(Node).get("big")
        assert node.status.allocatable["cpu"] == "128"
        assert node.metadata.labels["zone"] == "a"
        assert node.status.conditions[-1].reason == "KubeletReady"
        assert (await create(c, pod(node="big"))).status.phase == "Running"
        await c.client.for_kind(Node).delete("big")
        await c.clock.settle()
        lease = await c.client.for_kind(Lease).get("big", "kube-node-lease")
        await c.clock.advance(30)
        assert await c.client.for_kind(Lease).get("big", "kube-node-lease") == lease

    run(test)


def test_pod_deleted_during_init_fails() -> None:
    async def test(c: Cluster) -> None:
        manifest = pod(start="1m", **{"run.first": "forever"})
        manifest.metadata.finalizers = ["example.com/wait"]
        manifest.spec.initContainers = [Container(name="first", image="i")]
        await create(c, manifest)
        await c.client.for_kind(Pod).delete("p", "default")
        pod_ = await get_after(c, 30)
        assert pod_.status.phase == "Failed"
        assert pod_.status.initContainerStatuses[0].state.terminated.exitCode == 143
        assert pod_.status.containerStatuses[0].state.waiting.reason == "PodInitializing"

    run(test)


async def test_phases_and_restart_counts_of_random_pods_never_regress() -> None:
    """Pods start late, fail, end and are deleted while nodes are switched off and on."""

    random = Random(7)
    known: dict[str, Pod] = {}
    faults: list[str] = []
    async with cluster() as c, c.running(ACCOUNTS), c.nodes(*NODES):
        informers = InformerFactory(client=c.client)
        informers.for_kind(Pod).subscribe(lambda old, new: faults.extend(regressions(known, new)))
        async with informers:
            await informers.wait_synced()
            for number in range(60):
                await c.client.for_kind(Pod).create(random_pod(random, number))
                await c.clock.advance(random.random() * 3)
                if random.random() < 0.3:
                    with suppress(errors.NotFound):
                        await c.client.for_kind(Pod).delete(f"p{random.randrange(number + 1)}", "default")
                if random.random() < 0.2:
                    power = {POWER: random.choice(["off", None])}
                    await c.client.for_kind(Node).patch(random.choice(NODES), {"metadata": {"annotations": power}})
            for name in NODES:
                await c.client.for_kind(Node).patch(name, {"metadata": {"annotations": {POWER: None}}})
            await c.clock.advance(900)
            assert faults == []
            for pod in informers.for_kind(Pod).lister:
                assert pod.metadata.deletionTimestamp is None
                assert pod.status.phase in ("Running", "Succeeded", "Failed")


NODES = ("node-0", "node-1", "node-2")
ORDER = {"": 0, "Pending": 0, "Running": 1, "Succeeded": 2, "Failed": 2}


def random_pod(random: Random, number: int) -> Pod:
    times = ["0s", "1s..4s", "10s"]
    manifest: Pod = pod(
        f"p{number}",
        node=random.choice(NODES),
        start=random.choice(times),
        stop=random.choice(times),
        **{"run.main": random.choice([*times, "forever"]), "exit-code.main": random.choice(["0", "1", "1,0"])},
    )
    manifest.spec.restartPolicy = random.choice(["Always", "OnFailure", "Never"])
    if random.random() < 0.3:
        manifest.spec.initContainers = [Container(name="first", image="i")]
    return manifest


def regressions(known: dict[str, Pod], new: Pod | None) -> Iterator[str]:
    """Yield regressions of the pod since its last update. Only a pod with init containers may become pending again:
    they run again after its node was switched off."""
    old = known.get(new.metadata.uid) if new is not None else None
    if new is None or old is None:
        if new is not None:
            known[new.metadata.uid] = new
        return
    known[new.metadata.uid] = new
    name, before, after = new.metadata.name, old.status, new.status
    if before.phase in ("Succeeded", "Failed") and after.phase != before.phase:
        yield f"{name}: {before.phase} became {after.phase}"
    if ORDER[after.phase] < ORDER[before.phase] and not new.spec.initContainers:
        yield f"{name}: {before.phase} became {after.phase}: {before.containerStatuses} {after.containerStatuses}"
    if before.startTime not in (None, after.startTime):
        yield f"{name}: startTime changed from {before.startTime} to {after.startTime}"
    counts = {status.name: status.restartCount for status in before.containerStatuses}
    for status in after.containerStatuses:
        if status.restartCount < counts.get(status.name, 0):
            yield f"{name}: {status.restartCount} restarts after {counts[status.name]}"


def with_containers(count: int, **fields: Any) -> Any:
    manifest = pod()
    is_init = fields.pop("is_init", False)
    containers = [Container(name=f"c{number}", image="x", **fields) for number in range(count)]
    setattr(manifest.spec, "initContainers" if is_init else "containers", containers)
    return manifest


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="containers"),
        pytest.param({"is_init": True}, id="init containers"),
        pytest.param({"is_init": True, "restartPolicy": "Always"}, id="sidecars"),
    ],
)
def test_pod_with_many_containers_runs_and_ends(fields: dict[str, Any]) -> None:
    async def test(c: Cluster) -> None:
        created = await create(c, with_containers(HOLLOW_CONTAINERS - 1, **dict(fields)))
        assert created.status.phase == "Running"
        assert (
            len(created.status.containerStatuses) + len(created.status.initContainerStatuses) >= HOLLOW_CONTAINERS - 1
        )
        await c.client.for_kind(Pod).delete("p", "default", options=DeleteParameters(grace_period_s=5))
        await c.clock.advance(60)
        with pytest.raises(errors.NotFound):
            await get(c)

    run(test)


def test_pod_with_too_many_containers_is_rejected() -> None:
    async def test(c: Cluster) -> None:
        rejected = await create(c, with_containers(HOLLOW_CONTAINERS + 1))
        assert rejected.status.containerStatuses == []
        assert (rejected.status.phase, rejected.status.reason) == ("Failed", "TooManyContainers")

    run(test)


def test_long_and_many_annotations_are_ignored_with_few_events() -> None:
    async def test(c: Cluster) -> None:
        manifest = pod(message="x" * 5_000)
        manifest.metadata.annotations |= {f"hollow.sampan.dev/run.other{number}": "1" for number in range(1_000)}
        created = await create(c, manifest)
        assert created.status.phase == "Running"
        texts = [event.message for event in await events(c, "InvalidHollowAnnotation")]
        assert len(texts) <= HOLLOW_ANNOTATION_ERRORS
        assert any("may not be longer than 4096 characters" in text for text in texts)

    run(test)


def test_status_that_is_too_large_is_written_without_the_containers() -> None:
    async def test(c: Cluster) -> None:
        manifest = with_containers(HOLLOW_CONTAINERS)
        manifest.spec.containers[0].env = [EnvVar(name="V", value="x" * 1_400_000)]
        created = await create(c, manifest)
        assert created.status.phase == "Running"
        assert created.status.containerStatuses == []
        await c.client.for_kind(Pod).delete("p", "default", options=DeleteParameters(grace_period_s=1))
        await c.clock.advance(60)
        with pytest.raises(errors.NotFound):
            await get(c)

    run(test)
