"""The restart rule RestartAllContainers: an exit of one container restarts all containers of its pod in place."""

from typing import Any

from sampan.api.codec import json
from sampan.api.types.core_v1 import Node, Pod
from sampan.kubelet.pod_actions import may_restart_all, restarts_all
from sampan.runtimes import contract
from sampan.runtimes.contract import ContainerReport, PodReport
from tests.controllers.cluster import Cluster, cluster

RULES = [
    {"action": "Restart", "exitCodes": {"operator": "In", "values": [3]}},
    {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}},
]


def pod(**annotations: str) -> Pod:
    watcher = {"name": "watcher", "image": "i", "restartPolicy": "Never", "restartPolicyRules": RULES}
    spec = {
        "nodeName": "node-0",
        "restartPolicy": "Never",
        "initContainers": [{"name": "first", "image": "i"}],
        "containers": [watcher, {"name": "main", "image": "i"}],
    }
    meta = {
        "name": "p",
        "namespace": "default",
        "annotations": {f"hollow.sampan.dev/{k}": v for k, v in annotations.items()},
    }
    return json.from_value({"metadata": meta, "spec": spec}, Pod)


def report_of_exit(code: int) -> PodReport:
    return PodReport(containers=[ContainerReport("watcher", "id", contract.EXITED, 0, "i", "i", exit_code=code)])


def test_only_matching_exit_codes_restart_all_containers() -> None:
    assert may_restart_all(pod().spec)
    assert [restarts_all(pod().spec, report_of_exit(code)) for code in (0, 3, 42)] == [False, False, True]


def status_of(status: Any, name: str) -> Any:
    return next(
        container for container in (*status.initContainerStatuses, *status.containerStatuses) if container.name == name
    )


async def test_all_containers_restart_in_place() -> None:
    async def advance_and_get_status(c: Cluster, seconds: float) -> Any:
        await c.clock.advance(seconds)
        return (await c.client.for_kind(Pod).get("p", "default")).status

    async with cluster() as c, c.running("serviceaccount-controller"), c.nodes("node-0"):
        node = await c.client.for_kind(Node).get("node-0")
        assert "RestartAllContainersOnContainerExits" in node.status.declaredFeatures
        annotations = {"run.watcher": "10s", "exit-code.watcher": "42,0", "stop.main": "2s", "run.main": "1h"}
        await c.client.for_kind(Pod).create(json.from_value(json.to_value(pod(**annotations)), Pod))
        status = await advance_and_get_status(c, 5)
        assert (status.phase, status_of(status, "main").restartCount) == ("Running", 0)
        address = status.podIP
        status = await advance_and_get_status(c, 6)  # containers have no grace period
        conditions = {condition.type: (condition.status, condition.reason) for condition in status.conditions}
        assert conditions["AllContainersRestarting"] == ("False", "")
        assert (status.phase, status.podIP) == ("Running", address)
        counts = {name: status_of(status, name).restartCount for name in ("first", "watcher", "main")}
        assert counts == {"first": 1, "watcher": 1, "main": 1}
        assert status_of(status, "main").lastState.terminated.reason == "RestartingAllContainers"
        status = await advance_and_get_status(c, 20)
        assert status_of(status, "watcher").state.terminated.exitCode == 0
        assert (status.phase, status_of(status, "main").restartCount) == ("Running", 1)


async def test_repeated_restarts_of_all_containers_have_no_back_off() -> None:
    """Containers that this rule restarts have not failed, so no backoff applies."""

    async with cluster() as c, c.running("serviceaccount-controller"), c.nodes("node-0"):
        annotations = {"run.watcher": "2s", "exit-code.watcher": "42,42,42,42,0", "stop.main": "5s", "run.main": "1h"}
        await c.client.for_kind(Pod).create(json.from_value(json.to_value(pod(**annotations)), Pod))
        for _ in range(6):
            await c.clock.advance(5)
        status = (await c.client.for_kind(Pod).get("p", "default")).status
        assert {name: status_of(status, name).restartCount for name in ("watcher", "main")} == {"watcher": 4, "main": 4}
        assert status_of(status, "watcher").state.terminated.exitCode == 0
