"""The steps of a pod's lifecycle in the flight recorder."""

from functools import partial
from pathlib import Path
from typing import Any

from sampan.api.codec import json
from sampan.api.types.core_v1 import Event, Pod, Secret, SecurityContext
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.kubelet.agent.kubelet import Kubelet
from sampan.machinery.client import Client
from sampan.testing import Cluster
from tests.e2e.chaos.interruptible_transport import Line
from tests.eventually import eventually
from tests.kubelet.agent.real_node import NAME, manifest, phase, real_node

FIRST_STEPS = ["see and admit", "create cgroups", "create data directories", "mount volumes"]
OWN = f"own-{NAME}"


def steps(kubelet: Kubelet, name: str) -> list[tuple[str, str]]:
    assert kubelet.recorder is not None
    records = [record for record in kubelet.recorder.records_since() if record.subject == f"pods/default/{name}"]
    return [(record.action, record.outcome) for record in records if record.action != "report status"]


def actions(kubelet: Kubelet, name: str) -> list[str]:
    """Return the actions without repetitions for further containers."""
    return list(dict.fromkeys(action for action, _ in steps(kubelet, name)))


def pod(name: str, **spec: Any) -> Pod:
    value = json.read_any(manifest(name, **spec).encode())
    value["metadata"]["namespace"], value["spec"]["nodeName"] = "default", NAME
    value["spec"]["containers"][0]["lifecycle"] = {"postStart": {"exec": {"command": ["true"]}}}
    return json.from_value(value, Pod)


async def check_steps(cluster: Cluster, kubelet: Kubelet) -> None:
    client = cluster.client
    await client.for_kind(Secret).create(Secret(metadata=ObjectMeta(name="key", namespace="default")))
    first = {"name": "first", "image": "sampan.local/host", "command": ["true"]}
    secrets = [{"name": "key"}, {"name": "none"}]
    await client.for_kind(Pod).create(pod("web", initContainers=[first], imagePullSecrets=secrets))
    await eventually(lambda: "post-start hook" in actions(kubelet, "web"))
    container = ["pull image", "configure container", "start container"]
    assert actions(kubelet, "web") == [
        *FIRST_STEPS,
        "run sandbox",
        *container,
        "post-start hook",
    ]
    lifecycle = steps(kubelet, "web")
    assert ("see and admit", "host networking") in lifecycle
    order = [(action, outcome.split()[0]) for action, outcome in lifecycle if action in container]
    assert order == [(step, name) for name in ("first", "c") for step in container]


async def check_failures(cluster: Cluster, kubelet: Kubelet) -> None:
    """A container that fails to start has a Created event; one that fails to be created has none."""
    client, read_only_root = cluster.client, pod("locked")
    (read_only_root.spec.containers or [])[0].securityContext = SecurityContext(readOnlyRootFilesystem=True)
    missing_command = pod("lost")
    (missing_command.spec.containers or [])[0].command = ["/no/such/program"]
    cases = (
        (
            missing_command,
            "CrashLoopBackOff",
            ["Pulling", "Pulled", "Created", "Failed", "BackOff"],
            ("start container", "c failed: RunContainerError"),
        ),
        (
            read_only_root,
            "CreateContainerError",
            ["Pulling", "Pulled", "Failed"],
            ("start container", "c failed: CreateContainerError"),
        ),
    )
    for failing, reason, expected, expected_step in cases:
        name = failing.metadata.name
        await client.for_kind(Pod).create(failing)
        await eventually(lambda name=name, reason=reason: waiting_reason(kubelet, name) == reason)  # type: ignore[misc]
        lifecycle = steps(kubelet, name)
        assert lifecycle[lifecycle.index(("configure container", "c")) + 1] == expected_step
        assert await eventually(partial(list_reasons, client, name, expected[-1])) == expected


async def check_missing_command(cluster: Cluster, kubelet: Kubelet) -> None:
    """A container whose command does not exist has exited: the restart policy and the backoff apply to it."""
    client = cluster.client
    for name, policy in (("retried", "Always"), ("final", "Never")):
        failing = pod(name)
        failing.spec.restartPolicy = policy
        (failing.spec.containers or [])[0].command = ["/no/such/program"]
        await client.for_kind(Pod).create(failing)
    await eventually(lambda: waiting_reason(kubelet, "retried") == "CrashLoopBackOff")
    await eventually(lambda: phase(kubelet, "final") == "Failed")
    retried, final = kubelet.find("default", "retried"), kubelet.find("default", "final")
    assert retried is not None
    assert final is not None
    (status,), (last,) = retried.status.containerStatuses, final.status.containerStatuses
    assert (status.restartCount, last.restartCount) == (1, 0)
    for terminated in (status.lastState.terminated, last.state.terminated):
        assert terminated is not None
        assert (terminated.reason, terminated.exitCode) == ("StartError", 128)
        assert "/no/such/program" in terminated.message
    events = (await client.for_kind(Event).list()).items
    pulls = [event for event in events if (event.involvedObject.name, event.reason) == ("retried", "Pulled")]
    assert sum(event.count or 0 for event in pulls) == 2  # one for each start


async def list_reasons(client: Client, pod: str, last: str) -> list[str]:
    """Return the reasons of the events of a pod, without repetitions; nothing before the last one is there."""
    events = (await client.for_kind(Event).list()).items
    reasons = list(dict.fromkeys(event.reason for event in events if event.involvedObject.name == pod))
    return reasons if last in reasons else []


def waiting_reason(kubelet: Kubelet, name: str) -> str:
    pod = kubelet.find("default", name)
    states = [status.state.waiting for status in pod.status.containerStatuses] if pod is not None else []
    return states[0].reason if states and states[0] is not None else ""


async def check_static_pod(kubelet: Kubelet) -> None:
    await eventually(lambda: phase(kubelet, OWN) == "Running")
    assert actions(kubelet, OWN)[:4] == [
        "see and admit",
        "create cgroups",
        "create mirror pod",
        "create data directories",
    ]
    outcomes = {outcome for action, outcome in steps(kubelet, OWN) if action == "create mirror pod"}
    assert outcomes <= {"created", "exists"}  # created by this step or by the worker of mirror pods


async def test_flight_recorder_has_the_steps_of_a_pod_in_order(tmp_path: Path) -> None:
    line, manifests = Line(), tmp_path / "manifests"
    manifests.mkdir()
    async with Cluster(components=("apiserver", "controllers")) as cluster:
        line.open(cluster.assembly.transport)
        async with real_node(tmp_path, line, static_pod_path=manifests) as kubelet:
            await kubelet.ready.wait()
            await check_steps(cluster, kubelet)
            await check_failures(cluster, kubelet)
            await check_missing_command(cluster, kubelet)
            (manifests / "own.json").write_text(manifest("own"))
            await check_static_pod(kubelet)
            await line.cut()


async def test_running_pod_that_a_restarted_kubelet_disallows_fails(tmp_path: Path) -> None:
    """The status of the pod says that it ran; the kubelet was restarted with a configuration that disallows it."""

    line = Line()
    async with Cluster(components=("apiserver", "controllers")) as cluster:
        line.open(cluster.assembly.transport)
        client = cluster.client
        created_pod = await client.for_kind(Pod).create(pod("web"))
        running = {"name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": 0}
        running["state"] = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
        status = {"status": {"phase": "Running", "containerStatuses": [running]}}
        await client.for_kind(Pod).patch("web", status, "default", subresource="status")
        async with real_node(tmp_path, line, host_network_sources=["file"]) as kubelet:
            await kubelet.ready.wait()
            await eventually(lambda: phase(kubelet, "web") == "Failed")
            web_pod = kubelet.find("default", "web")
            assert web_pod is not None
            assert web_pod.status.reason == "Blocked"
            assert web_pod.status.message == (
                f'pod with UID "{created_pod.metadata.uid}" specified host networking, but is disallowed'
            )
            assert "run sandbox" not in actions(kubelet, "web")
            await line.cut()
