"""Properties of every kind: what the server accepts is stored unchanged, and no request makes the server fail."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from sampan.api.resources.resource import Resource
from sampan.api.schema import schemas
from sampan.api.scheme import builtin_scheme, type_for
from tests.apiserver.cluster import Cluster, run_in_cluster
from tests.apiserver.every_kind import GOOD
from tests.apiserver.registry.random_objects import RandomObjects, merge_objects

STORED = {
    f"{resource.qualified}/{resource.version}": resource
    for resource in builtin_scheme()
    if resource.storage is not None
}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
EXAMPLES, WORKLOAD_EXAMPLES = 24, 60
WORKLOADS = {"apps", "autoscaling", "batch", "policy"}
"""API groups whose kinds have the most rules, and get more examples."""
REJECTED = (400, 422)


def collection(resource: Resource) -> str:
    prefix = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    return f"{prefix}/{'namespaces/ns/' if resource.namespaced else ''}{resource.plural}"


def sample_of(resource: Resource) -> dict[str, Any]:
    return GOOD[resource.group, resource.kind]


def with_name(value: dict[str, Any], name: str, **metadata: Any) -> dict[str, Any]:
    """Return the object with this name, unless it has a name that the rules of its kind require."""
    object_name = name_of(value) or name
    return {**value, "metadata": {"name": object_name, **metadata}}


def name_of(value: dict[str, Any]) -> str:
    meta = value.get("metadata")
    return meta.get("name", "") if isinstance(meta, dict) else ""


def random_objects(resource: Resource) -> list[dict[str, Any]]:
    kind, sample = type_for(resource.gvk), sample_of(resource)
    assert kind is not None
    valid = {key: part for key, part in sample.items() if key != "metadata"}
    is_workload = resource.group in WORKLOADS or resource.kind == "ReplicationController"
    drawn = RandomObjects(schemas.schema_of(kind), valid, seed=f"{resource.qualified}/{resource.version}")
    examples = drawn.examples(WORKLOAD_EXAMPLES if is_workload else EXAMPLES)
    return [{**value, "metadata": sample.get("metadata", {})} for value in examples]


def test_every_stored_kind_has_a_sample_object() -> None:
    assert set(GOOD) == {(resource.group, resource.kind) for resource in STORED.values()}


@pytest.mark.parametrize("name", STORED)
def test_sample_object_can_be_created_updated_listed_and_deleted(name: str) -> None:
    resource = STORED[name]

    async def work(cluster: Cluster) -> None:
        path, value = collection(resource), with_name(sample_of(resource), "a", labels={"l": "m"})
        dry = await cluster.send("POST", f"{path}?dryRun=All", value)
        assert dry.code == 201, dry.json
        created = await cluster.make(path, value)
        object_path = f"{path}/{created['metadata']['name']}"
        await assert_unchanged_by_put(cluster, object_path, created)
        for target in (path, object_path):
            table = (await cluster.client.get(target, accept=TABLE)).json
            widths = {len(row["cells"]) for row in table["rows"]}
            assert widths == {len(table["columnDefinitions"])}, table
        deleted = await cluster.send("DELETE", object_path)
        assert deleted.code == 200, deleted.json

    run_in_cluster(work)


async def assert_unchanged_by_put(cluster: Cluster, path: str, created: dict[str, Any]) -> None:
    again = await cluster.send("PUT", path, created)
    assert again.code == 200, (created, again.json)
    assert again.json == created
    assert (await cluster.send("GET", path)).json == created


@pytest.mark.parametrize("name", STORED)
def test_random_objects_are_rejected_or_stored_unchanged(name: str) -> None:
    resource = STORED[name]

    rejected = (*REJECTED, 403) if resource.kind == "Pod" else REJECTED  # the service account of a pod may be missing

    async def work(cluster: Cluster) -> None:
        path, accepted = collection(resource), 0
        for number, value in enumerate(random_objects(resource)):
            reply = await cluster.send("POST", path, with_name(value, f"a{number}"))
            if reply.code == 201:
                accepted += 1
                object_path = f"{path}/{reply.json['metadata']['name']}"
                await assert_unchanged_by_put(cluster, object_path, reply.json)
                await delete(cluster, object_path)
            else:
                assert reply.code in rejected, (value, reply.json)
        assert accepted

    run_in_cluster(work)


async def delete(cluster: Cluster, path: str) -> None:
    """Delete the object, with its finalizers, so that another one can have its name."""
    deleted = await cluster.send("DELETE", f"{path}?propagationPolicy=Background")
    assert deleted.code == 200, deleted.json
    if deleted.json.get("metadata", {}).get("finalizers"):
        assert (await cluster.patch(path, {"metadata": {"finalizers": None}})).code == 200


@pytest.mark.parametrize("name", STORED)
def test_random_updates_are_accepted_or_rejected_as_client_errors(name: str) -> None:
    resource = STORED[name]
    parts = [
        "",
        *(
            f"/{subresource.name}"
            for subresource in resource.subresources
            if subresource.name in ("status", "approval")
        ),
    ]

    async def work(cluster: Cluster) -> None:
        path, accepted = collection(resource), Counter[str]()
        created = await cluster.make(path, with_name(sample_of(resource), "a"))
        object_path = f"{path}/{created['metadata']['name']}"
        for number, value in enumerate(random_objects(resource)):
            for part in parts:
                present = (await cluster.send("GET", object_path)).json
                new = merge_objects(present, value) if number % 2 else {**value, "metadata": present["metadata"]}
                reply = await cluster.send("PUT", object_path + part, new)
                assert reply.code in (200, *REJECTED), (value, reply.json)
                accepted[part] += reply.code == 200
        assert all(accepted[part] for part in parts), accepted

    run_in_cluster(work)
