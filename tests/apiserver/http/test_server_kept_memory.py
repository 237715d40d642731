"""Requests whose texts are as large as allowed, and different each time: no cache keeps them."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from sampan.testing import Cluster
from tests.apiserver.http.wire import Wire

MIB = 1 << 20
LINE = 60_000
COUNT = 16
NAMESPACE = "/api/v1/namespaces/default"
AUTHORIZATION = "/apis/authorization.k8s.io/v1"
JSON_TYPE = {"Content-Type": "application/json"}


class Attack(NamedTuple):
    method: str
    path: str
    body: Any = None
    headers: dict[str, str] = JSON_TYPE


def review(**attributes: str) -> dict[str, Any]:
    return {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods", **attributes}}}


def local_review(groups: list[str]) -> dict[str, Any]:
    spec = {"user": "u", "groups": groups, "resourceAttributes": {"verb": "get", "namespace": "default"}}
    return {"metadata": {"namespace": "default"}, "spec": spec}


def pod(**container: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i", **container}]}}


def deployment(values: list[str]) -> dict[str, Any]:
    selector = {"matchExpressions": [{"key": "k", "operator": "In", "values": values}]}
    template = {"metadata": {"labels": {"k": values[0]}}, "spec": pod()["spec"]}
    return {"metadata": {"name": "a"}, "spec": {"selector": selector, "template": template}}


def cron_job(zone: str) -> dict[str, Any]:
    template = {"spec": {"template": {"spec": {**pod()["spec"], "restartPolicy": "Never"}}}}
    return {"metadata": {"name": "a"}, "spec": {"schedule": "* * * * *", "timeZone": zone, "jobTemplate": template}}


def policy(expression: str) -> dict[str, Any]:
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods"]}]
    spec = {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": expression}]}
    return {"metadata": {"name": "a"}, "spec": spec}


def slice_of(addresses: list[str]) -> dict[str, Any]:
    endpoints = [{"addresses": [address]} for address in addresses]
    return {"metadata": {"name": "a"}, "addressType": "IPv6", "endpoints": endpoints}


def long(number: int, letter: str = "a", length: int = MIB) -> str:
    return f"{number}{letter * length}"


MAPS, REVIEWS = f"{NAMESPACE}/configmaps?dryRun=All", f"{AUTHORIZATION}/selfsubjectaccessreviews"
APPLY = {"Content-Type": "application/apply-patch+yaml"}
ATTACKS: dict[str, Callable[[int], Attack]] = {
    "time": lambda n: Attack(
        "POST", MAPS, {"metadata": {"name": "a", "creationTimestamp": f"2020-01-01T00:00:00.{long(n, '0')}Z"}}
    ),
    "micro time": lambda n: Attack(
        "POST",
        "/apis/coordination.k8s.io/v1/namespaces/default/leases?dryRun=All",
        {"metadata": {"name": "a"}, "spec": {"renewTime": f"2020-01-01T00:00:00.{long(n, '0')}Z"}},
    ),
    "namespace of a review": lambda n: Attack("POST", REVIEWS, review(namespace=long(n))),
    "resource of a review": lambda n: Attack("POST", REVIEWS, review(resource=long(n), subresource=long(n))),
    "name of a review": lambda n: Attack("POST", REVIEWS, review(name=long(n), group=long(n))),
    "path of a review": lambda n: Attack(
        "POST", REVIEWS, {"spec": {"nonResourceAttributes": {"verb": "get", "path": f"/{long(n)}"}}}
    ),
    "groups of a review": lambda n: Attack(
        "POST",
        f"{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews",
        local_review([long(n, f"{at:x}", 20) for at in range(10_000)]),
    ),
    "user of a review": lambda n: Attack(
        "POST", f"{AUTHORIZATION}/subjectaccessreviews", {"spec": {"user": long(n), **review()["spec"]}}
    ),
    "namespace of a rules review": lambda n: Attack(
        "POST", f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {"namespace": long(n)}}
    ),
    "token of a review": lambda n: Attack(
        "POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": f"{long(n)}.{long(n)}.x"}}
    ),
    "audiences of a token": lambda n: Attack(
        "POST",
        f"{NAMESPACE}/serviceaccounts/default/token",
        {"spec": {"audiences": [f"{n}-{at}" for at in range(20_000)]}},
    ),
    "namespace in a path": lambda n: Attack("GET", f"/api/v1/namespaces/{long(n, length=LINE)}/pods"),
    "group in a path": lambda n: Attack("GET", f"/apis/{long(n, length=LINE)}/v1/things"),
    "Accept header": lambda n: Attack("GET", "/version", None, {"Accept": f"a{n}/b," * (LINE // 6)}),
    "User-Agent header": lambda n: Attack(
        "POST", MAPS, {"metadata": {"name": "a"}}, {"User-Agent": long(n, length=LINE)}
    ),
    "impersonated user": lambda n: Attack("GET", f"{NAMESPACE}/pods", None, {"Impersonate-User": long(n, length=LINE)}),
    "field selector": lambda n: Attack("GET", f"{NAMESPACE}/pods?fieldSelector=metadata.name%3D{long(n, length=LINE)}"),
    "quantity": lambda n: Attack(
        "POST", f"{NAMESPACE}/pods?dryRun=All", pod(resources={"limits": {"cpu": f"{n}{'0' * MIB}1"}})
    ),
    "image": lambda n: Attack("POST", f"{NAMESPACE}/pods?dryRun=All", pod(image=long(n))),
    "selector of a deployment": lambda n: Attack(
        "POST",
        "/apis/apps/v1/namespaces/default/deployments?dryRun=All",
        deployment([f"v{n}-{at}" for at in range(20_000)]),
    ),
    "time zone": lambda n: Attack(
        "POST", "/apis/batch/v1/namespaces/default/cronjobs?dryRun=All", cron_job(f"A/{long(n)}")
    ),
    "addresses of endpoints": lambda n: Attack(
        "POST",
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?dryRun=All",
        slice_of([f"2001:db8::{n:x}:{long(at, '0', 1000)}" for at in range(900)]),
    ),
    "label keys": lambda n: Attack("POST", MAPS, {"metadata": {"name": "a", "labels": {long(n): "v"}}}),
    "managed fields": lambda n: Attack("POST", MAPS, {"metadata": {"name": "a"}, "data": {long(n): "v"}}),
    "applied fields": lambda n: Attack(
        "PATCH",
        f"{NAMESPACE}/configmaps/a?fieldManager=m&dryRun=All",
        {"apiVersion": "v1", "kind": "ConfigMap", "data": {f"{n}.{at}": "v" for at in range(10_000)}},
        APPLY,
    ),
    "CEL expression": lambda n: Attack(
        "POST",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies?dryRun=All",
        policy(f"'{long(n, length=90_000)}' == ''"),
    ),
    "query parameters": lambda n: Attack("GET", f"/version?{'&'.join(f'p{n}{at}' for at in range(8000))}"),
}


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with Cluster(insecure=True, controllers=()) as cluster:
        port = urlsplit(cluster.insecure_url).port
        assert port is not None
        yield port


@pytest.mark.parametrize("name", ATTACKS)
def test_large_texts_of_requests_are_not_kept(port: int, name: str) -> None:
    """Each text has 60 kB in a line of the head and 1 MB in a body; less than half of sixteen stay in memory. The
    parser of yarl keeps the last 128 targets, so as many ordinary requests follow."""

    async def send(first: int, count: int) -> None:
        for number in range(first, first + count):
            attack = ATTACKS[name](number)
            async with Wire(port) as wire:
                response = await wire.request(attack.method, attack.path, attack.body, attack.headers)
                assert response.code < 500, response.body[:500]
        async with Wire(port) as wire:
            for number in range(first, first + 130):
                await wire.request("GET", f"/version?number={number}")

    asyncio.run(send(10, 2))
    gc.collect()
    tracemalloc.start()
    try:
        asyncio.run(send(100, COUNT))
        gc.collect()
        is_line = ATTACKS[name](0).body is None or "header" in name
        kept, _ = tracemalloc.get_traced_memory()
        assert kept < COUNT * (LINE if is_line else MIB) // 2
    finally:
        tracemalloc.stop()
