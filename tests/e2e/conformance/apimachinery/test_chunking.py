"""The conformance descriptions of lists in pieces, each a test whose first line is its name."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from sampan.api.codec.json import from_value
from sampan.api.types.core_v1 import PodTemplate
from sampan.machinery.clock import VirtualClock
from sampan.testing import Cluster
from tests.e2e.conformance.api import Api, Objects, Refused, Value

TOTAL = 400
COMPACTION_INTERVAL_S = 300
TEMPLATE = {"spec": {"containers": [{"name": "test", "image": "test2"}]}}
NAMES = [f"template-{number:04}" for number in range(TOTAL)]


def filled(cluster: Cluster, namespace: str) -> None:
    async def fill() -> None:
        async with asyncio.TaskGroup() as group:
            for name in NAMES:
                value = {"metadata": {"name": name, "namespace": namespace}, "template": TEMPLATE}
                group.create_task(cluster.client.of(PodTemplate).create(from_value(value, PodTemplate)))

    cluster.run(fill())


def pages(api: Api, templates: Objects, limit: int, **start: Any) -> Iterator[Value]:
    token = start
    while True:
        page = api.get(templates.place, limit=limit, **token)
        yield page
        if not (value := page["metadata"].get("continue", "")):
            return
        token = {"continue": value}


def names(page: Value) -> list[str]:
    return [obj["metadata"]["name"] for obj in page["items"]]


def check(page: Value, limit: int, count: int) -> list[str]:
    """Not more than the limit, and the number of what remains is told if there is more; the names on the page."""
    page_names, meta = names(page), page["metadata"]
    assert len(page_names) <= limit
    left = TOTAL - count - len(page_names)
    assert meta.get("remainingItemCount") == (left or None)
    assert bool(meta.get("continue")) is (left > 0)
    return page_names


def test_chunks(api: Api, sampan_cluster: Cluster) -> None:
    """[sig-api-machinery] Servers with support for API chunking should return chunks of results for list calls
    [Conformance]"""
    filled(sampan_cluster, api.namespace)
    templates = api.of("podtemplates")
    for _ in range(3):
        listed, versions = list[str](), set[str]()
        for page in pages(api, templates, 17):
            listed += check(page, 17, len(listed))
            versions.add(page["metadata"]["resourceVersion"])
        assert listed == NAMES
        assert len(versions) == 1
    assert names(api.get(templates.place, limit=TOTAL + 1)) == NAMES
    assert names(api.get(templates.place)) == NAMES


def test_going_on_after_compaction() -> None:
    """[sig-api-machinery] Servers with support for API chunking should support continue listing from the last key if
    the original version has been compacted away, though the list is inconsistent [Slow] [Conformance]"""
    limit = TOTAL // 10
    clock = VirtualClock()
    with (
        Cluster(components=("apiserver",), store="sqlite", clock=clock) as cluster,
        closing(Api(cluster, "default")) as api,
    ):
        filled(cluster, "default")
        templates = api.of("podtemplates")
        first = api.get(templates.place, limit=limit)
        listed = check(first, limit, 0)
        token, version = {"continue": first["metadata"]["continue"]}, first["metadata"]["resourceVersion"]
        again = api.get(templates.place, limit=limit, **token)
        assert names(again) == NAMES[limit : 2 * limit]
        assert again["metadata"]["resourceVersion"] == version
        templates.patch(NAMES[-1], {"metadata": {"labels": {"later": "yes"}}})
        cluster.run(clock.advance(2 * COMPACTION_INTERVAL_S))
        with pytest.raises(Refused) as refused:
            api.get(templates.place, limit=limit, **token)
        assert (refused.value.code, refused.value.reason) == (410, "Expired")
        versions = set[str]()
        for page in pages(api, templates, limit, **{"continue": refused.value.status["metadata"]["continue"]}):
            listed += check(page, limit, len(listed))
            versions.add(page["metadata"]["resourceVersion"])
        assert listed == NAMES
        assert len(versions) == 1
        assert int(versions.pop()) > int(version)
