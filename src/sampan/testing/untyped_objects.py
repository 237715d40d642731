"""Access to objects of every kind as plain values, including custom resources, through discovery."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from sampan.api.codec import json
from sampan.api.resources.resource import Resource
from sampan.machinery import errors
from sampan.machinery.client import Client, PatchType, Request, path_of
from sampan.machinery.client.discovery import Discovery
from sampan.testing.manifests import Object, Objects

FIELD_MANAGER = "sampan-testing"
_DISCOVERY_TIMEOUT_S = 10.0
_DISCOVERY_PAUSE_S = 0.05


class KindNotServed(ValueError):
    """The server does not serve this kind."""


class UntypedObjects:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._resources: list[Resource] = []

    async def resource_of_kind(self, api_version: str, kind: str) -> Resource:
        """Return the resource of a kind. Wait a moment if its CustomResourceDefinition was created just now."""
        deadline = asyncio.get_running_loop().time() + _DISCOVERY_TIMEOUT_S
        while True:
            for resource in self._resources:
                if (resource.api_version, resource.kind) == (api_version, kind):
                    return resource
            if asyncio.get_running_loop().time() > deadline:
                raise KindNotServed(f"the server offers no kind {kind} in {api_version}")
            await self._discover(is_retry=bool(self._resources))

    async def resource_named(self, word: str) -> Resource:
        """Return the resource with a name as kubectl accepts it: a kind, a plural, singular or short name, also with
        its group (`deployments.apps`)."""
        for _ in range(2):
            for resource in self._resources:
                if word.lower() in _names(resource):
                    return resource
            await self._discover()
        raise KindNotServed(f"the server offers no resource {word!r}")

    async def resources(self) -> list[Resource]:
        """Return every resource once, in the preferred version of its group."""
        resources, _ = await Discovery(self._client).discover_preferred()
        return resources

    async def _discover(self, *, is_retry: bool = False) -> None:
        if is_retry:
            await asyncio.sleep(_DISCOVERY_PAUSE_S)
        self._resources, _ = await Discovery(self._client).discover_served()

    async def get(self, resource: Resource, name: str, namespace: str) -> Object | None:
        """Return the object, None if it does not exist."""
        try:
            return await self._send("GET", path_of(resource, namespace, name))
        except errors.NotFound:
            return None

    async def list(self, resource: Resource, namespace: str, *, labels: str = "", fields: str = "") -> Objects:
        query = [pair for pair in (("labelSelector", labels), ("fieldSelector", fields)) if pair[1]]
        return _items(resource, await self._send("GET", path_of(resource, namespace), query=query))

    async def list_first(self, resource: Resource, namespace: str, maximum: int) -> tuple[Objects, int]:
        """Return at most `maximum` objects of a resource, and the number of remaining ones."""
        page = await self._send("GET", path_of(resource, namespace), query=[("limit", str(maximum))])
        return _items(resource, page), int(page["metadata"].get("remainingItemCount") or 0)

    async def apply(self, value: Mapping[str, Any], namespace: str) -> Object:
        """Apply an object server-side; create it if the server has to generate its name."""
        resource = await self.resource_of_kind(str(value["apiVersion"]), str(value["kind"]))
        metadata = dict(value.get("metadata") or {})
        namespace = str(metadata.get("namespace") or namespace) if resource.namespaced else ""
        body = {**value, "metadata": metadata | ({"namespace": namespace} if namespace else {})}
        if not metadata.get("name"):
            return await self._send("POST", path_of(resource, namespace), body=body)
        query = [("fieldManager", FIELD_MANAGER), ("force", "true")]
        path = path_of(resource, namespace, str(metadata["name"]))
        return await self._send("PATCH", path, query=query, body=body, content_type=PatchType.APPLY.value)

    async def delete(self, resource: Resource, name: str, namespace: str) -> None:
        await self._send("DELETE", path_of(resource, namespace, name))

    async def read(self, path: str, query: Sequence[tuple[str, str]]) -> Object:
        """Return the JSON object at a path that is not a resource."""
        return await self._send("GET", path, query=query)

    async def _send(
        self,
        method: str,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> Object:
        headers = {"Accept": "application/json"} | ({"Content-Type": content_type} if body is not None else {})
        content = json.encode(body) if body is not None else b""
        request = Request(method=method, path=path, query=query, headers=headers, body=content)
        value: Object = json.read_any((await self._client.send(request)).body())
        return value


def _items(resource: Resource, page: Object) -> Objects:
    identity = {"apiVersion": resource.api_version, "kind": resource.kind}
    return [{**identity, **item} for item in page.get("items") or ()]


def _names(resource: Resource) -> set[str]:
    names = {resource.kind.lower(), resource.plural, resource.singular, *resource.short_names} - {""}
    return names | {f"{name}.{resource.group}" for name in names if resource.group}
