"""ComponentStatuses: the health of components."""

from typing import Any

import pytest

from sampan.apiserver.endpoints import ComponentCheck, ComponentChecks
from sampan.apiserver.registry.kinds import componentstatuses
from tests.apiserver.cluster import Cluster, run_in_cluster
from tests.ports import free_port

PATH = "/api/v1/componentstatuses"
PARTIAL_METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


async def healthy() -> None:
    """Succeed, as the health check of a healthy component does."""


async def unhealthy() -> None:
    raise ConnectionError("connection refused")


def checks(**by_name: ComponentCheck) -> ComponentChecks:
    component_checks = ComponentChecks()
    for name, check in by_name.items():
        component_checks.add(name, check)
    return component_checks


def condition(status: dict[str, Any]) -> dict[str, Any]:
    (condition,) = status["conditions"]
    return {key: condition[key] for key in condition if key != "type"}


def test_every_component_is_checked() -> None:
    async def work(cluster: Cluster) -> None:
        document = (await cluster.send("GET", PATH)).json
        assert (document["kind"], document["metadata"]) == ("ComponentStatusList", {})
        assert [set(status) for status in document["items"]] == [{"metadata", "conditions"}] * 3
        assert {status["metadata"]["name"]: condition(status) for status in document["items"]} == {
            "controller-manager": {"status": "True", "message": "ok"},
            "etcd-0": {"status": "True", "message": "ok"},
            "scheduler": {"status": "False", "error": "connection refused"},
        }
        assert await cluster.get_cells(PATH) == [
            ["controller-manager", "Healthy", "ok", ""],
            ["etcd-0", "Healthy", "ok", ""],
            ["scheduler", "Unhealthy", "", "connection refused"],
        ]

    run_in_cluster(work, component_checks=checks(**{"controller-manager": healthy, "scheduler": unhealthy}))


def test_a_single_component_is_shown_or_not_found() -> None:
    async def work(cluster: Cluster) -> None:
        reply = await cluster.send("GET", f"{PATH}/etcd-0")
        assert condition(reply.json) == {"status": "True", "message": "ok"}
        assert await cluster.get_cells(f"{PATH}/etcd-0") == [["etcd-0", "Healthy", "ok", ""]]
        missing = await cluster.send("GET", f"{PATH}/none")
        assert (missing.code, missing.json["message"]) == (404, 'componentstatus "none" not found')
        assert (await cluster.send("POST", PATH, {})).code == 405

    run_in_cluster(work)


def test_selectors_and_partial_object_metadata() -> None:
    async def work(cluster: Cluster) -> None:
        selected = (await cluster.send("GET", f"{PATH}?fieldSelector=metadata.name!%3Detcd-0")).json
        assert [status["metadata"]["name"] for status in selected["items"]] == ["controller-manager", "scheduler"]
        assert (await cluster.send("GET", f"{PATH}?labelSelector=a%3Db")).json["items"] == []
        parts = (await cluster.client.get(PATH, accept=PARTIAL_METADATA)).json
        assert [part["metadata"] for part in parts["items"]] == [
            {"name": name} for name in ("controller-manager", "etcd-0", "scheduler")
        ]

    run_in_cluster(work, component_checks=checks(**{"controller-manager": healthy, "scheduler": healthy}))


def test_components_of_other_processes_are_checked_at_their_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(cluster: Cluster) -> None:
        port = free_port()
        monkeypatch.setitem(componentstatuses._PORTS, "scheduler", port)
        status = (await cluster.send("GET", f"{PATH}/scheduler")).json
        text = f'Get "https://127.0.0.1:{port}/healthz": dial tcp 127.0.0.1:{port}: connect: connection refused'
        assert condition(status) == {"status": "False", "message": text}

    run_in_cluster(work)


def test_a_response_warns_of_the_deprecation() -> None:
    async def work(cluster: Cluster) -> None:
        call = cluster.client.make_call("GET", PATH, b"", {})
        await cluster.client.pipeline.serve_as(call)
        assert call.warnings == ["v1 ComponentStatus is deprecated in v1.19+"]

    run_in_cluster(work)
