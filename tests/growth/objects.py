"""Requests with grown objects, and measurements of their cost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from sampan.api import limits
from sampan.api.resources.resource import Resource
from sampan.api.schema import schemas
from sampan.api.schema.tree import Schema
from sampan.api.scheme import builtin_scheme, type_for
from tests.apiserver.cluster import Cluster, cluster
from tests.apiserver.every_kind import GOOD
from tests.growth.cost import Growth, measure_growth
from tests.growth.grown_objects import (
    ITEM,
    SHAPES,
    VALUE,
    GrowingField,
    grow_object,
    growing_fields,
    string_fields,
    with_string,
)

STORED = [resource for resource in builtin_scheme() if resource.storage is not None]

TOO_LARGE = b"etcdserver: request is too large"
"""The error for an object that is too large to be stored."""


@dataclass(frozen=True, slots=True)
class Case:
    """A list or map of a kind, and how it is filled."""

    resource: Resource
    field: GrowingField
    mode: str

    def __str__(self) -> str:
        return f"{self.resource.qualified}/{self.resource.version} {self.field} ({self.mode})"

    @property
    def schema(self) -> Schema:
        kind = type_for(self.resource.gvk)
        assert kind is not None
        return schemas.schema_of(kind)

    @property
    def collection(self) -> str:
        resource = self.resource
        prefix = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
        return f"{prefix}/{'namespaces/ns/' if resource.namespaced else ''}{resource.plural}"

    @property
    def name(self) -> str:
        meta = self._good.get("metadata")
        return meta["name"] if meta else "a"

    @property
    def _good(self) -> dict[str, Any]:
        return GOOD[self.resource.group, self.resource.kind]

    def value(self, count: int) -> dict[str, Any]:
        good = {**self._good, "metadata": {"name": self.name}}
        return grow_object(good, self.schema, self.field, count, self.mode)

    def body(self, count: int) -> bytes:
        return msgspec.json.encode(self.value(count))

    @property
    def is_of_status(self) -> bool:
        return self.field.path[:1] == ("status",)


@dataclass(frozen=True, slots=True)
class StringCase(Case):
    """A string field of a kind; the mode is the text that is repeated."""

    def __str__(self) -> str:
        return f"{self.resource.qualified}/{self.resource.version} {self.field} ({self.mode!r} repeated)"

    def value(self, count: int) -> dict[str, Any]:
        good = {**self._good, "metadata": {"name": self.name}}
        return with_string(good, self.schema, self.field, (self.mode * count)[:count])


def string_cases(*, distinct: bool) -> Iterator[Case]:
    """Yield every string field of every kind, or with `distinct` only the first of fields that kinds share."""
    names: set[str] = set()
    for resource in STORED:
        kind = type_for(resource.gvk)
        assert kind is not None
        for field in string_fields(schemas.schema_of(kind)):
            if field.owner in names:
                continue
            if distinct:
                names.add(field.owner)
            for shape in SHAPES:
                yield StringCase(resource, field, shape)


def every_case(modes: Sequence[str]) -> Iterator[Case]:
    """Yield every list and map of every kind."""
    for resource in STORED:
        kind = type_for(resource.gvk)
        assert kind is not None
        for field in growing_fields(schemas.schema_of(kind)):
            if field.path:
                for mode in modes:
                    yield Case(resource, field, mode)


def distinct_cases(modes: Sequence[str]) -> list[Case]:
    """Return one kind for each list or map that several kinds share, such as labels."""
    first: dict[tuple[str, str], Case] = {}
    for case in every_case(modes):
        first.setdefault((case.field.owner, case.mode), case)
    return list(first.values())


def distinct_cases_of_pods_and_templates(modes: Sequence[str]) -> list[Case]:
    """Return one kind for each shared list or map, and for those of pods also one with a pod template."""
    first: dict[tuple[str, str, bool], Case] = {}
    for case in every_case(modes):
        first.setdefault((case.field.owner, case.mode, "template" in case.field.path), case)
    return list(first.values())


@asynccontextmanager
async def measured_cluster() -> AsyncIterator[Cluster]:
    async with cluster() as running:
        yield running


def fit_body(case: Case, count: int) -> tuple[int, bytes]:
    """Return the body, with fewer items than `count` if it would exceed the limit of bodies."""
    while len(body := case.body(count)) > limits.REQUEST_BODY_BYTES:
        count //= 2
    return count, body


async def create_growth(server: Cluster, case: Case, count: int) -> Growth:
    """Measure dry runs of a creation."""
    count, largest = fit_body(case, count)
    body = largest

    async def prepare(size: int) -> None:
        nonlocal body
        body = largest if size == count else case.body(size)

    async def work(size: int) -> None:
        reply = await server.client.send("POST", f"{case.collection}?dryRun=All", body, content_type="application/json")
        assert reply.code < 500 or TOO_LARGE in reply.body, f"create {case}: {reply.body[:500]!r}"

    return await measure_growth(f"create {case}", work, count, prepare)


async def update_growths(server: Cluster, case: Case, count: int, changes: Sequence[Change]) -> list[Growth]:
    """Measure dry runs of updates that change the items of a grown object in each of these ways. Empty if the server
    rejects such an object."""
    count, body = fit_body(case, count)
    subresource = "/status" if case.is_of_status else ""
    stored = {count: await _create_grown_object(server, case, count, subresource)}
    if stored[count] is None:
        return []
    results = []
    for change in changes:

        async def prepare(size: int, change: Change = change) -> None:
            nonlocal body
            if size not in stored:
                await _delete(server, case)
                stored.clear()
                stored[size] = await _create_grown_object(server, case, size, subresource)
            present = stored[size]
            body = _change_field(present, case, change) if present is not None else b""

        async def work(size: int) -> None:
            target = f"{case.collection}/{case.name}{subresource}?dryRun=All"
            reply = await server.client.send("PUT", target, body, content_type="application/json")
            assert reply.code < 500 or TOO_LARGE in reply.body, f"update {case}: {reply.body[:500]!r}"

        results.append(await measure_growth(f"update {case} {change.__name__}", work, count, prepare))
    await _delete(server, case)
    return results


async def _create_grown_object(server: Cluster, case: Case, count: int, subresource: str) -> dict[str, Any] | None:
    """Create the grown object, and return it as the server has stored it."""
    value = case.value(count)
    sent = value if not subresource else {key: part for key, part in value.items() if key != "status"}
    reply = await server.send("POST", case.collection, sent)
    if reply.code != 201:
        return None
    created: dict[str, Any] = reply.json
    if subresource:
        full = {**created, "status": value.get("status", {})}
        reply = await server.send("PUT", f"{case.collection}/{case.name}{subresource}", full)
        if reply.code != 200:
            await _delete(server, case)
            return None
        created = reply.json
    return created


async def _delete(server: Cluster, case: Case) -> None:
    await server.send("DELETE", f"{case.collection}/{case.name}?gracePeriodSeconds=0&propagationPolicy=Background")
    reply = await server.send("GET", f"{case.collection}/{case.name}")
    if reply.code == 200:  # finalizers keep it
        patch = {"metadata": {"finalizers": None}}
        await server.send("PATCH", f"{case.collection}/{case.name}", patch, media="application/merge-patch+json")


Change = Callable[[Any], Any]


def reverse_order(items: Any) -> Any:
    return items[::-1] if isinstance(items, list) else dict(reversed(items.items()))


def replace_values(items: Any) -> Any:
    """Return the items with other texts, except for the keys that identify them."""
    if isinstance(items, list):
        return [_change_texts(item) for item in items]
    return {key: _change_texts(value) for key, value in items.items()}


def _change_texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: part if key in _ITEM_KEYS else _change_texts(part) for key, part in value.items()}
    return f"{value}x" if isinstance(value, str) else value


_ITEM_KEYS = ("name", "key", "type", "ip", "uid", "mountPath", "devicePath", "topologyKey", "protocol", "operator")


def _change_field(value: dict[str, Any], case: Case, change: Change) -> bytes:
    """Return the object with the field changed, and without a resource version."""
    changed: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value))
    for field in ("resourceVersion", "uid", "creationTimestamp", "managedFields"):
        changed["metadata"].pop(field, None)
    node: Any = changed
    for part in case.field.path[: None if case.field.is_object else -1]:
        key = 0 if part == ITEM else next(iter(node), "") if part == VALUE else part
        if not node or (isinstance(node, dict) and key not in node):
            return msgspec.json.encode(changed)
        node = node[key]
    for key, items in list(node.items() if isinstance(node, dict) else enumerate(node)):
        if isinstance(items, dict | list) and (case.field.is_object or key in (case.field.path[-1], 0, "key")):
            node[key] = change(items)
    return msgspec.json.encode(changed)
