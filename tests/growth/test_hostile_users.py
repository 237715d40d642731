"""Small requests by which a user with ordinary permissions tries to block the server; all are dry runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from sampan.testing import Cluster
from tests.apiserver.http.wire import Wire, WireResponse
from tests.growth.cost import measure_growth
from tests.input_cost import MOST_CPU_S, is_cpu_time_within

NAMESPACE = "team"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All"
ROLES = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles?dryRun=All"


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "x"}], **spec}}


def pod_with_equal_ports(count: int) -> dict[str, Any]:
    return pod(containers=[{"name": "c", "image": "x", "ports": [{"containerPort": 80}] * count}])


def items(paths: list[str]) -> dict[str, Any]:
    listed = [{"key": "k", "path": path} for path in paths]
    return pod(volumes=[{"name": "v", "configMap": {"name": "m", "items": listed}}])


def role(count: int) -> dict[str, Any]:
    words = [f"w{number}" for number in range(count)]
    return {"metadata": {"name": "a"}, "rules": [{"apiGroups": words, "resources": words, "verbs": words}]}


def deployment(count: int) -> dict[str, Any]:
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": pod_with_equal_ports(count)["spec"]}
    return {"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}


DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments?dryRun=All"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The plain HTTP port of a cluster with an editor and an administrator of a namespace. All requests are dry runs,
    so that tests can share it."""
    with Cluster(insecure=True, controllers=()) as cluster:
        port = urlsplit(cluster.insecure_url).port
        assert port is not None
        asyncio.run(_prepare(port))
        yield port


async def _prepare(port: int) -> None:
    """Create a namespace with an editor and an administrator."""
    async with Wire(port) as wire:
        creations = [await wire.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})]
        account = {"metadata": {"name": "default"}}
        creations.append(await wire.request("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", account))
        for user, name in (("editor", "edit"), ("admin", "admin")):
            creations += [await _bind(wire, user, name), await _grant(wire, name)]
    assert {response.code for response in creations} <= {200, 201}, [response.body for response in creations]


async def _bind(wire: Wire, user: str, role: str) -> WireResponse:
    binding = {
        "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/rolebindings"
    return await wire.request("POST", path, binding)


async def _grant(wire: Wire, role: str) -> WireResponse:
    """Write the rules of a role that is aggregated by a controller, which does not run here."""
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "get"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["create", "get"]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create"]},
    ]
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}"
    present = (await wire.request("GET", path)).json
    return await wire.request("PUT", path, {**present, "rules": rules})


@pytest.mark.parametrize(
    ("user", "target", "count", "body", "code"),
    [
        pytest.param("editor", PODS, 4_000, pod_with_equal_ports, 201, id="a pod with thousands of equal ports"),
        pytest.param("editor", DEPLOYMENTS, 4_000, deployment, 201, id="a template with thousands of equal ports"),
        pytest.param(
            "editor",
            PODS,
            8_000,
            lambda n: items([f"p{i}" for i in range(n)]),
            201,
            id="thousands of files in a volume",
        ),
        pytest.param(
            "editor", PODS, 8_000, lambda n: items(["same"] * n), 201, id="thousands of files with one path in a volume"
        ),
        pytest.param(
            "editor",
            PODS,
            2_000,
            lambda n: items(["/".join("a" * (i % 500 + 1)) for i in range(n)]),
            201,
            id="files below each other in a volume",
        ),
        pytest.param("admin", ROLES, 4_000, role, 403, id="a role that names billions of rights"),
    ],
)
async def test_cpu_time_of_hostile_requests_is_bounded(
    port: int, user: str, target: str, count: int, body: Callable[[int], Any], code: int
) -> None:
    async with Wire(port) as wire:
        values = {size: body(size) for size in (count // 4, count // 2, count)}
        responses: list[WireResponse] = []

        async def send(size: int) -> None:
            responses.append(await wire.request("POST", target, values[size], {"Impersonate-User": user}))

        growth_ = await measure_growth(f"{user} sends {target}", send, count)
        assert {response.code for response in responses} == {code}, responses[-1].body[:500]
        assert not growth_.is_too_fast, str(growth_)
        assert is_cpu_time_within(growth_.large_s, MOST_CPU_S), str(growth_)


async def test_privilege_escalation_error_lists_the_missing_permissions(port: int) -> None:
    rule = {"apiGroups": ["", "apps"], "resources": ["nodes", "pods"], "verbs": ["get", "evict"]}
    async with Wire(port) as wire:
        body = {"metadata": {"name": "a"}, "rules": [rule]}
        response = await wire.request("POST", ROLES, body, {"Impersonate-User": "admin"})
    assert response.code == 403
    assert response.json["message"] == (
        'roles.rbac.authorization.k8s.io "a" is forbidden: user "admin" (groups=["system:authenticated"]) is '
        "attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["nodes"], Verbs:["get" "evict"]}\n'
        '{APIGroups:[""], Resources:["pods"], Verbs:["evict"]}\n'
        '{APIGroups:["apps"], Resources:["nodes"], Verbs:["get" "evict"]}\n'
        '{APIGroups:["apps"], Resources:["pods"], Verbs:["get" "evict"]}'
    )
