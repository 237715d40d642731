"""Conformance tests of sig-api-machinery for lists in chunks. The first paragraph of a docstring is the official test
name."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from sampan.api.codec.json import from_value
from sampan.api.types.core_v1 import PodTemplate
from sampan.host.clock import VirtualClock
from sampan.testing import Cluster
from tests.e2e.conformance.api import Api, ApiError, Objects, Value

TOTAL = 400
COMPACTION_INTERVAL_S = 300
TEMPLATE = {"spec": {"containers": [{"name": "test", "image": "test2"}]}}
NAMES = [f"template-{number:04}" for number in range(TOTAL)]


def create_templates(cluster: Cluster, namespace: str) -> None:
    async def fill() -> None:
        async with asyncio.TaskGroup() as group:
            for name in NAMES:
                value = {"metadata": {"name": name, "namespace": namespace}, "template": TEMPLATE}
                group.create_task(cluster.client.for_kind(PodTemplate).create(from_value(value, PodTemplate)))

    cluster.run(fill())


def pages(api: Api, templates: Objects, limit: int, **start: Any) -> Iterator[Value]:
    token = start
    while True:
        page = api.get(templates.collection_path, limit=limit, **token)
        yield page
        if not (value := page["metadata"].get("continue", "")):
            return
        token = {"continue": value}


def names(page: Value) -> list[str]:
    return [obj["metadata"]["name"] for obj in page["items"]]


def check_page(page: Value, limit: int, count: int) -> list[str]:
    """Check length, remaining item count and continue token of a page, and return the names on it."""
    page_names, meta = names(page), page["metadata"]
    assert len(page_names) <= limit
    left = TOTAL - count - len(page_names)
    assert meta.get("remainingItemCount") == (left or None)
    assert bool(meta.get("continue")) is (left > 0)
    return page_names


def test_list_in_chunks(api: Api, sampan_cluster: Cluster) -> None:
    """[sig-api-machinery] Servers with support for API chunking should return chunks of results for list calls
    [Conformance]"""
    create_templates(sampan_cluster, api.namespace)
    templates = api.for_resource("podtemplates")
    for _ in range(3):
        listed, versions = list[str](), set[str]()
        for page in pages(api, templates, 17):
            listed += check_page(page, 17, len(listed))
            versions.add(page["metadata"]["resourceVersion"])
        assert listed == NAMES
        assert len(versions) == 1
    assert names(api.get(templates.collection_path, limit=TOTAL + 1)) == NAMES
    assert names(api.get(templates.collection_path)) == NAMES


def test_list_continues_after_compaction() -> None:
    """[sig-api-machinery] Servers with support for API chunking should support continue listing from the last key if
    the original version has been compacted away, though the list is inconsistent [Slow] [Conformance]"""
    limit = TOTAL // 10
    clock = VirtualClock()
    with (
        Cluster(components=("apiserver",), store="sqlite", clock=clock) as cluster,
        closing(Api(cluster, "default")) as api,
    ):
        create_templates(cluster, "default")
        templates = api.for_resource("podtemplates")
        first = api.get(templates.collection_path, limit=limit)
        listed = check_page(first, limit, 0)
        token, version = {"continue": first["metadata"]["continue"]}, first["metadata"]["resourceVersion"]
        again = api.get(templates.collection_path, limit=limit, **token)
        assert names(again) == NAMES[limit : 2 * limit]
        assert again["metadata"]["resourceVersion"] == version
        templates.patch(NAMES[-1], {"metadata": {"labels": {"later": "yes"}}})
        cluster.run(clock.advance(2 * COMPACTION_INTERVAL_S))
        with pytest.raises(ApiError) as refused:
            api.get(templates.collection_path, limit=limit, **token)
        assert (refused.value.code, refused.value.reason) == (410, "Expired")
        versions = set[str]()
        for page in pages(api, templates, limit, **{"continue": refused.value.status["metadata"]["continue"]}):
            listed += check_page(page, limit, len(listed))
            versions.add(page["metadata"]["resourceVersion"])
        assert listed == NAMES
        assert len(versions) == 1
        assert int(versions.pop()) > int(version)
