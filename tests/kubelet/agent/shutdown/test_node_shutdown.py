"""Graceful node shutdown: pods terminate in the order of their priority, and conditions and events report it."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import Event, Node, Pod
from sampan.kubelet.agent.config import AgentConfig, ShutdownGroup
from sampan.kubelet.agent.kubelet import Kubelet
from sampan.kubelet.agent.shutdown.node_shutdown import group_of, groups_of
from sampan.machinery.client import Client
from sampan.testing import Cluster
from tests.e2e.chaos.interruptible_transport import Line
from tests.eventually import eventually
from tests.kubelet.agent.real_node import NAME, manifest, phase, real_node
from tests.kubelet.agent.shutdown.logind_service import LogindService, logind_service

CRITICAL = 2_000_000_000


def config(**settings: Any) -> AgentConfig:
    return AgentConfig(name="n", root=Path("/"), logs=Path("/"), **settings)


def test_shutdown_groups_by_priority() -> None:
    assert groups_of(config()) == []
    default_groups = groups_of(config(shutdown_grace_s=30, shutdown_grace_critical_s=10))
    assert default_groups == [ShutdownGroup(0, 20), ShutdownGroup(CRITICAL, 10)]
    assert groups_of(config(shutdown_grace_s=5, shutdown_grace_critical_s=10)) == []
    groups = groups_of(config(shutdown_groups=[ShutdownGroup(100, 1), ShutdownGroup(-5, 2), ShutdownGroup(10, 3)]))
    assert [group.priority for group in groups] == [-5, 10, 100]
    priorities = {priority: group_of(priority, groups).priority for priority in (-9, -5, 0, 10, 99, 100, CRITICAL)}
    assert priorities == {-9: -5, -5: -5, 0: -5, 10: 10, 99: 10, 100: 100, CRITICAL: 100}


def pod(name: str, priority: str = "") -> Pod:
    command = ("sh", "-c", 'trap "exit 0" TERM; while true; do sleep 0.1; done')
    value = json.read_any(manifest(name, *command, terminationGracePeriodSeconds=20).encode())
    value["metadata"]["namespace"], value["spec"]["nodeName"] = "default", NAME
    value["spec"]["priorityClassName"] = priority
    return json.from_value(value, Pod)


async def wait_for_ready_status(client: Client, status: str) -> str:
    """Wait until the condition Ready has that status, and return its message."""
    messages: list[str] = []

    async def holds() -> bool:
        node = await client.for_kind(Node).get(NAME)
        messages[:] = [row.message for row in node.status.conditions if (row.type, row.status) == ("Ready", status)]
        return bool(messages)

    await eventually(holds)
    return messages[0]


def get_finish_time(kubelet: Kubelet, name: str) -> str:
    pod = kubelet.find("default", name)
    assert pod is not None
    assert (pod.status.phase, pod.status.reason) == ("Failed", "Terminated")
    assert pod.status.message == "Pod was terminated in response to imminent node shutdown."
    assert "DisruptionTarget" in [condition.type for condition in pod.status.conditions]
    state = pod.status.containerStatuses[0].state.terminated
    assert state is not None
    return state.finishedAt or ""


async def scenario(client: Client, kubelet: Kubelet, machine: LogindService) -> None:
    await eventually(lambda: kubelet.shutdown.inhibitor.ready.is_set())
    assert machine.max_delay_s == 40
    assert machine.inhibited == ["shutdown", "kubelet", "Kubelet needs time to handle node shutdown", "delay"]
    assert machine.has_lock()
    await client.for_kind(Pod).create(pod("plain"))
    await client.for_kind(Pod).create(pod("vital", "system-node-critical"))
    await eventually(lambda: phase(kubelet, "plain") == phase(kubelet, "vital") == "Running")
    await machine.announce_shutdown(True)
    assert await wait_for_ready_status(client, "False") == "node is shutting down"
    await client.for_kind(Pod).create(pod("late"))
    await eventually(lambda: phase(kubelet, "late") == "Failed")
    late = kubelet.find("default", "late")
    assert late is not None
    assert late.status.reason == "NodeShutdown"
    assert late.status.message == "Pod was rejected: Pod was rejected as the node is shutting down."
    await eventually(lambda: not machine.has_lock())
    assert get_finish_time(kubelet, "plain") <= get_finish_time(kubelet, "vital")
    await machine.announce_shutdown(False)
    assert await wait_for_ready_status(client, "True") == "kubelet is posting ready status"
    await eventually(machine.has_lock)
    await check_shutdown_events(client)


async def check_shutdown_events(client: Client) -> None:
    expected = {f"Shutdown manager detected shutdown {kind}" for kind in ("event", "cancellation")}

    async def are_recorded() -> bool:
        events = (await client.for_kind(Event).list()).items
        return {event.message for event in events if event.reason == "Shutdown"} == expected

    await eventually(are_recorded)


@pytest.mark.skipif(shutil.which("dbus-daemon") is None, reason="needs dbus-daemon")
async def test_pods_are_terminated_by_priority_before_the_node_shuts_down(tmp_path: Path) -> None:
    line = Line()
    async with (
        Cluster(components=("apiserver", "controllers")) as cluster,
        logind_service(tmp_path) as (address, machine),
    ):
        line.open(cluster.assembly.transport)
        async with real_node(
            tmp_path,
            line,
            system_bus=address,
            logind_directory=machine.config_directory,
            shutdown_grace_s=40.0,
            shutdown_grace_critical_s=20.0,
        ) as kubelet:
            await kubelet.ready.wait()
            await scenario(cluster.client, kubelet, machine)
            await line.cut()


async def test_node_runs_pods_without_a_system_bus(tmp_path: Path) -> None:
    line, nowhere = Line(), f"unix:path={tmp_path / 'nowhere'}"
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    (manifests / "own.json").write_text(manifest("own"))
    async with real_node(
        tmp_path, line, static_pod_path=manifests, system_bus=nowhere, shutdown_grace_s=4.0
    ) as kubelet:
        await eventually(lambda: phase(kubelet, f"own-{NAME}") == "Running")
