"""Properties of every kind: a valid object is stored unchanged, and no request makes the server fail."""

from __future__ import annotations

from typing import Any

import pytest

from sampan.api.resources.resource import Resource
from sampan.api.schema import schemas
from sampan.api.scheme import builtin_scheme, type_for
from tests.apiserver.cluster import Cluster, in_cluster
from tests.apiserver.every_kind import GOOD
from tests.apiserver.random_objects import examples, objects

STORED = {
    f"{resource.qualified}/{resource.version}": resource
    for resource in builtin_scheme()
    if resource.storage is not None
}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
CREATE_EXAMPLES, UPDATE_EXAMPLES = 24, 12
CLIENT_ERRORS = (400, 403, 404, 409, 422)


def collection(resource: Resource) -> str:
    prefix = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    return f"{prefix}/{'namespaces/ns/' if resource.namespaced else ''}{resource.plural}"


def sample_of(resource: Resource) -> dict[str, Any]:
    return GOOD[resource.group, resource.kind]


def named(value: dict[str, Any], name: str, **metadata: Any) -> dict[str, Any]:
    """Return the object with this name, unless it has a name that the rules of its kind require."""
    object_name = name_of(value) or name
    return {**value, "metadata": {"name": object_name, **metadata}}


def name_of(value: dict[str, Any]) -> str:
    meta = value.get("metadata")
    return meta.get("name", "") if isinstance(meta, dict) else ""


def random_objects(resource: Resource, count: int) -> list[dict[str, Any]]:
    kind = type_for(resource.gvk)
    assert kind is not None
    base = sample_of(resource)
    values_ = examples(objects(schemas.of(kind), {key: part for key, part in base.items() if key != "metadata"}), count)
    return [{**value, "metadata": base.get("metadata", {})} for value in values_]


def test_every_stored_kind_has_a_sample_object() -> None:
    assert set(GOOD) == {(resource.group, resource.kind) for resource in STORED.values()}


@pytest.mark.parametrize("name", STORED)
def test_sample_object_can_be_created_updated_listed_and_deleted(name: str) -> None:
    resource = STORED[name]

    async def work(cluster: Cluster) -> None:
        path, value = collection(resource), named(sample_of(resource), "a", labels={"l": "m"})
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

    in_cluster(work)


async def assert_unchanged_by_put(cluster: Cluster, path: str, created: dict[str, Any]) -> None:
    again = await cluster.send("PUT", path, created)
    assert again.code == 200, (created, again.json)
    assert again.json == created
    assert (await cluster.send("GET", path)).json == created


@pytest.mark.parametrize("name", STORED)
def test_random_objects_are_rejected_or_stored_unchanged(name: str) -> None:
    resource = STORED[name]

    async def work(cluster: Cluster) -> None:
        path = collection(resource)
        for number, value in enumerate(random_objects(resource, CREATE_EXAMPLES)):
            reply = await cluster.send("POST", path, named(value, f"a{number}"))
            assert reply.code in (201, *CLIENT_ERRORS), (value, reply.json)
            if reply.code == 201:
                object_path = f"{path}/{reply.json['metadata']['name']}"
                await assert_unchanged_by_put(cluster, object_path, reply.json)
                deleted = await cluster.send("DELETE", f"{object_path}?propagationPolicy=Background")
                assert deleted.code == 200, deleted.json

    in_cluster(work)


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
        path = collection(resource)
        created = await cluster.make(path, named(sample_of(resource), "a"))
        object_path = f"{path}/{created['metadata']['name']}"
        for value in random_objects(resource, UPDATE_EXAMPLES):
            for part in parts:
                present = (await cluster.send("GET", object_path)).json
                reply = await cluster.send("PUT", object_path + part, {**value, "metadata": present["metadata"]})
                assert reply.code in (200, *CLIENT_ERRORS), (value, reply.json)

    in_cluster(work)
