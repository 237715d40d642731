"""Requests that grow otherwise than by a list of an object: selectors, patches, field managers, reviews, tables."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from sampan.api import limits
from tests.apiserver.cluster import NAMESPACE, PODS, Cluster
from tests.growth.cost import measure_growth
from tests.growth.grown_objects import nested_name
from tests.growth.objects import measured_cluster

MAPS = f"{NAMESPACE}/configmaps"
JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
ITEMS, MANY_ITEMS = 2_000, 8_000


@dataclass(frozen=True)
class Request:
    """A request of some size, and the requests that prepare it."""

    method: str
    target: str
    value: Any = None
    media: str = JSON
    accept: str = ""
    before: list[tuple[str, str, Any, str]] = field(default_factory=list)
    """Method, target, value and media type of requests whose cost does not count."""


def pod(**spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "nginx:1"}
    return {
        "metadata": {"name": "a"},
        "spec": {"containers": [container], "automountServiceAccountToken": False} | spec,
    }


def patch_request(
    media: str, patch: Callable[[int], Any], live: Callable[[int], Any] = lambda count: pod(), path: str = PODS
) -> Callable[[int], Request]:
    """A dry run of a patch of a live object, which may grow as well."""

    def request(count: int) -> Request:
        query = "?dryRun=All&fieldManager=test" + ("&force=true" if media == APPLY else "")
        return Request("PATCH", f"{path}/a{query}", patch(count), media, before=[("POST", path, live(count), JSON)])

    return request


def list_request(query: Callable[[int], str], path: str = PODS) -> Callable[[int], Request]:
    return lambda count: Request("GET", f"{path}?{query(count)}", before=[("POST", PODS, pod(), JSON)])


def pod_with_env(count: int) -> dict[str, Any]:
    env = [{"name": f"V{number}", "value": "x"} for number in range(count)]
    return pod(containers=[{"name": "c", "image": "nginx:1", "env": env}])


def config_map(count: int) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "data": {f"k{number}": "v" for number in range(count)}}


def managed_config_map(count: int, operation: str) -> dict[str, Any]:
    """A config map whose keys each have a manager of their own."""
    entries = [
        {
            "manager": f"m{number}",
            "operation": operation,
            "apiVersion": "v1",
            "time": "2026-01-02T03:04:05Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {f"f:k{number}": {}}},
        }
        for number in range(count)
    ]
    created = config_map(count)
    return {**created, "metadata": {"name": "a", "managedFields": entries}}


def apply_configuration(value: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, **value}


def containers_patch(*items: Any, **more: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(items), **more}}


def words(count: int, start: str = "w") -> list[str]:
    return [f"{start}{number}" for number in range(count)]


def role(**rule: list[str]) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "rules": [rule]}


ROLES = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{'ns'}/roles"
CASES: dict[str, Callable[[int], Request]] = {
    # -- selectors
    "label selector of many keys": list_request(lambda n: "labelSelector=" + ",".join(words(n))),
    "label selector of many equal terms": list_request(lambda n: "labelSelector=" + ",".join(["a=b"] * n)),
    "label selector of many negations": list_request(
        lambda n: "labelSelector=" + ",".join("!" + word for word in words(n))
    ),
    "label selector of many values": list_request(lambda n: "labelSelector=" + quote(f"a in ({','.join(words(n))})")),
    "label selector of many equal values": list_request(
        lambda n: "labelSelector=" + quote(f"a in ({','.join(['v'] * n)})")
    ),
    "label selector of spaces": list_request(lambda n: "labelSelector=" + quote(" " * 10 * n + "a")),
    "label selector of brackets": list_request(lambda n: "labelSelector=" + quote("(" * 10 * n)),
    "label selector with bad values": list_request(lambda n: "labelSelector=" + quote(f"a in ({','.join(['-'] * n)})")),
    "field selector of many terms": list_request(lambda n: "fieldSelector=" + ",".join(["metadata.name=a"] * n)),
    "field selector of many names": list_request(
        lambda n: "fieldSelector=" + ",".join(f"metadata.name!={word}" for word in words(n))
    ),
    "field selector of unknown fields": list_request(
        lambda n: "fieldSelector=" + ",".join(f"{word}=a" for word in words(n))
    ),
    "field selector of backslashes": list_request(lambda n: "fieldSelector=" + quote("metadata.name=" + "\\" * 10 * n)),
    "field selector of commas": list_request(lambda n: "fieldSelector=" + quote("," * 10 * n)),
    "a query of many parameters": list_request(lambda n: "&".join(f"{word}=1" for word in words(n))),
    "a query of many equal parameters": list_request(lambda n: "&".join(["labelSelector=a"] * n)),
    # -- patches
    "JSON patch that adds keys": patch_request(
        JSON_PATCH,
        lambda n: [
            {"op": "add", "path": "/metadata/annotations", "value": {}},
            *({"op": "add", "path": f"/metadata/annotations/{word}", "value": "x"} for word in words(n)),
        ],
    ),
    "JSON patch that inserts at the start": patch_request(
        JSON_PATCH,
        lambda n: [{"op": "add", "path": "/spec/containers/0/env/0", "value": {"name": word}} for word in words(n)],
        pod_with_env,
    ),
    "JSON patch that removes from the start": patch_request(
        JSON_PATCH, lambda n: [{"op": "remove", "path": "/spec/containers/0/env/0"}] * n, pod_with_env
    ),
    "JSON patch that moves": patch_request(
        JSON_PATCH,
        lambda n: [{"op": "move", "from": "/spec/containers/0/env/0", "path": "/spec/containers/0/env/-"}] * n,
        pod_with_env,
    ),
    "JSON patch that copies": patch_request(
        JSON_PATCH, lambda n: [{"op": "copy", "from": "/spec/containers", "path": "/spec/x"}] * n, pod_with_env
    ),
    "JSON patch that tests": patch_request(
        JSON_PATCH,
        lambda n: [{"op": "test", "path": "/spec/containers/0/name", "value": "c"}] * n,
        pod_with_env,
    ),
    "JSON patch with a long path": patch_request(
        JSON_PATCH, lambda n: [{"op": "add", "path": "/a" * 10 * n, "value": 1}]
    ),
    "JSON patch with unknown parts": patch_request(
        JSON_PATCH, lambda n: [{"op": "test", "path": "/spec/nodeName", "value": None, word: 1} for word in words(n)]
    ),
    "merge patch of labels": patch_request(MERGE, lambda n: {"metadata": {"labels": dict.fromkeys(words(n), "x")}}),
    "merge patch that removes keys": patch_request(
        MERGE, lambda n: {"data": dict.fromkeys(words(n, "k"), None)}, config_map, MAPS
    ),
    "strategic patch of many variables": patch_request(
        STRATEGIC,
        lambda n: containers_patch({"name": "c", "env": [{"name": f"V{i}", "value": "y"} for i in range(n)]}),
        pod_with_env,
    ),
    "strategic patch of one variable many times": patch_request(
        STRATEGIC,
        lambda n: containers_patch({"name": "c", "env": [{"name": "V0", "value": str(i)} for i in range(n)]}),
        pod_with_env,
    ),
    "strategic patch of one container many times": patch_request(
        STRATEGIC,
        lambda n: containers_patch(*({"name": "c", "env": [{"name": f"V{i}", "value": "y"}]} for i in range(n))),
        pod_with_env,
    ),
    "strategic patch that orders": patch_request(
        STRATEGIC,
        lambda n: containers_patch(
            {"name": "c", "$setElementOrder/env": [{"name": f"V{i}"} for i in reversed(range(n))]}
        ),
        pod_with_env,
    ),
    "strategic patch that orders one item many times": patch_request(
        STRATEGIC,
        lambda n: containers_patch({"name": "c", "$setElementOrder/env": [{"name": "V0"}] * n, "env": []}),
        pod_with_env,
    ),
    "strategic patch that deletes items": patch_request(
        STRATEGIC,
        lambda n: containers_patch({"name": "c", "env": [{"name": f"V{i}", "$patch": "delete"} for i in range(n)]}),
        pod_with_env,
    ),
    "strategic patch that deletes from a list of strings": patch_request(
        STRATEGIC,
        lambda n: {"metadata": {"$deleteFromPrimitiveList/finalizers": [f"example.com/{word}" for word in words(n)]}},
    ),
    "strategic patch that retains keys": patch_request(
        STRATEGIC, lambda n: {"spec": {"$retainKeys": words(n)}, "metadata": {"labels": {"a": "b"}}}
    ),
    # -- server-side apply and managers
    "apply of many fields": patch_request(
        APPLY, lambda n: apply_configuration(config_map(n), "ConfigMap"), config_map, MAPS
    ),
    "apply of many items": patch_request(APPLY, lambda n: apply_configuration(pod_with_env(n), "Pod"), pod_with_env),
    "apply of one item many times": patch_request(
        APPLY, lambda n: apply_configuration(pod(containers=[{"name": "c", "env": [{"name": "V"}] * n}]), "Pod")
    ),
    "apply of many bad items below a long name": patch_request(
        APPLY,
        lambda n: apply_configuration(
            pod(containers=[{"name": "c" * 100 * n, "env": [{"name": i} for i in range(n)]}]), "Pod"
        ),
    ),
    "apply over many managers": patch_request(
        APPLY, lambda n: apply_configuration(config_map(n), "ConfigMap"), lambda n: managed_config_map(n, "Apply"), MAPS
    ),
    "apply of fields of many other managers": patch_request(
        APPLY,
        lambda n: apply_configuration(
            {"metadata": {"name": "a"}, "data": dict.fromkeys(words(n, "k"), "other")}, "ConfigMap"
        ),
        lambda n: managed_config_map(n, "Apply"),
        MAPS,
    ),
    "update over many managers": patch_request(
        MERGE,
        lambda n: {"data": dict.fromkeys(words(n, "k"), "other")},
        lambda n: managed_config_map(n, "Apply"),
        MAPS,
    ),
    "many managers that update": lambda n: Request("POST", f"{MAPS}?dryRun=All", managed_config_map(n, "Update")),
    "managers of many fields": lambda n: Request(
        "POST",
        f"{MAPS}?dryRun=All",
        {
            **config_map(1),
            "metadata": {
                "name": "a",
                "managedFields": [
                    {
                        "manager": "m",
                        "operation": "Apply",
                        "apiVersion": "v1",
                        "fieldsType": "FieldsV1",
                        "fieldsV1": {f'k:{{"a":{number}}}': {f"v:{number}": {}} for number in range(n)},
                    }
                ],
            },
        },
    ),
    # -- roles
    "a role of many groups, resources, verbs and names": lambda n: Request(
        "POST",
        f"{ROLES}?dryRun=All",
        role(apiGroups=words(n), resources=words(n), verbs=words(n), resourceNames=words(n)),
    ),
    "a role of many rules": lambda n: Request(
        "POST",
        f"{ROLES}?dryRun=All",
        {
            "metadata": {"name": "a"},
            "rules": [{"apiGroups": [""], "resources": [word], "verbs": ["get"]} for word in words(n)],
        },
    ),
    "a review for a user in many groups": lambda n: Request(
        "POST",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        {
            "spec": {
                "user": "u",
                "groups": words(n),
                "extra": {word: ["v"] for word in words(n)},
                "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "ns"},
            }
        },
    ),
    "a review of selectors": lambda n: Request(
        "POST",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        {
            "spec": {
                "user": "u",
                "resourceAttributes": {
                    "verb": "list",
                    "resource": "pods",
                    "labelSelector": {"requirements": [{"key": w, "operator": "Exists"} for w in words(n)]},
                    "fieldSelector": {
                        "requirements": [{"key": w, "operator": "In", "values": ["a"]} for w in words(n)]
                    },
                },
            }
        },
    ),
    "a token for many audiences": lambda n: Request(
        "POST",
        "/apis/authentication.k8s.io/v1/tokenreviews",
        {"spec": {"token": "e." * n, "audiences": words(n)}},
    ),
    # -- pods
    "containers that mount all volumes": lambda n: Request(
        "POST",
        f"{PODS}?dryRun=All",
        pod(
            volumes=[{"name": f"v{i}", "emptyDir": {}} for i in range(n)],
            containers=[
                {
                    "name": f"c{i}",
                    "image": "nginx:1",
                    "volumeMounts": [{"name": f"v{i}", "mountPath": f"/m/{nested_name(i)}"}],
                }
                for i in range(n)
            ],
        ),
    ),
    "variables that refer to each other": lambda n: Request(
        "POST",
        f"{PODS}?dryRun=All",
        pod(
            containers=[
                {
                    "name": "c",
                    "image": "nginx:1",
                    "env": [{"name": "V", "value": f"$(V)$(V{i})"} for i in range(n)],
                    "command": ["$(V)" * n],
                }
            ]
        ),
    ),
    "ports of many containers": lambda n: Request(
        "POST",
        f"{PODS}?dryRun=All",
        pod(
            containers=[
                {
                    "name": f"c{i}",
                    "image": "nginx:1",
                    "ports": [{"name": "p", "containerPort": 80, "hostPort": i + 1, "hostIP": "10.0.0.1"}],
                }
                for i in range(n)
            ]
        ),
    ),
    "tolerations with a runtime class": lambda n: Request(
        "POST",
        f"{PODS}?dryRun=All",
        pod(runtimeClassName="r", tolerations=[{"key": word, "operator": "Exists"} for word in words(n)]),
        before=[
            (
                "POST",
                "/apis/node.k8s.io/v1/runtimeclasses",
                {
                    "metadata": {"name": "r"},
                    "handler": "h",
                    "scheduling": {"tolerations": [{"key": "t", "operator": "Exists"}]},
                },
                JSON,
            )
        ],
    ),
    # -- tables
    "a table of a large object": lambda n: Request(
        "GET", f"{PODS}/a", accept=TABLE, before=[("POST", PODS, pod_with_env(n), JSON)]
    ),
    "a table of a role binding of many subjects": lambda n: Request(
        "GET",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/ns/rolebindings/a",
        accept=TABLE,
        before=[
            (
                "POST",
                "/apis/rbac.authorization.k8s.io/v1/namespaces/ns/rolebindings",
                {
                    "metadata": {"name": "a"},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
                    "subjects": [{"kind": "ServiceAccount", "name": word, "namespace": "ns"} for word in words(n)],
                },
                JSON,
            )
        ],
    ),
}
_PEM = {
    "a TLS secret of newlines": lambda n: Request(
        "POST",
        f"{NAMESPACE}/secrets?dryRun=All",
        {
            "metadata": {"name": "a"},
            "type": "kubernetes.io/tls",
            "stringData": {"tls.crt": "-----BEGIN A-----" + "\n" * 10 * n, "tls.key": "x"},
        },
    ),
    "a CSR of many BEGIN lines": lambda n: Request(
        "POST",
        "/apis/certificates.k8s.io/v1/certificatesigningrequests?dryRun=All",
        {
            "metadata": {"name": "a"},
            "spec": {
                "signerName": "example.com/s",
                "usages": ["client auth"],
                "request": msgspec.to_builtins(b"-----BEGIN CERTIFICATE REQUEST-----\n" * n),
            },
        },
    ),
}
CASES |= _PEM


async def _clear(server: Cluster) -> None:
    for path in (
        PODS,
        MAPS,
        "/apis/node.k8s.io/v1/runtimeclasses",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/ns/rolebindings",
    ):
        await server.send("DELETE", f"{path}?gracePeriodSeconds=0&propagationPolicy=Background")


async def _check(name: str, count: int) -> None:
    build = CASES[name]
    async with measured_cluster() as server:
        send: Callable[[], Awaitable[Any]]

        async def prepare(size: int) -> None:
            nonlocal send
            request = build(size)
            await _clear(server)
            for method, target, value, media in request.before:
                reply = await server.send(method, target, value, media)
                assert reply.code in (200, 201), reply.body[:500]
            body = msgspec.json.encode(request.value) if request.value is not None else b""
            assert len(body) <= limits.REQUEST_BODY_BYTES
            headers = {"content_type": request.media} | ({"accept": request.accept} if request.accept else {})
            send = lambda: server.client.send(request.method, request.target, body, **headers)  # noqa: E731

        async def work(size: int) -> None:
            reply = await send()
            assert reply.code < 500 or not reply.json.get("reason"), reply.body[:500]

        growth_ = await measure_growth(name, work, count, prepare)
        assert not growth_.is_too_fast, str(growth_)


@pytest.mark.parametrize("name", CASES)
def test_request_costs_at_most_n_log_n(name: str) -> None:
    asyncio.run(_check(name, ITEMS))


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", CASES)
def test_request_of_many_items_costs_at_most_n_log_n(name: str) -> None:
    asyncio.run(_check(name, MANY_ITEMS))
