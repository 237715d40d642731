"""An API server with custom resources, reached over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from sampan.testing import Cluster
from tests.apiserver.http.wire import Wire, WireResponse
from tests.eventually import eventually

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "example.com"
BOXES = f"/apis/{GROUP}/v1/namespaces/default/boxes"
MERGE = {"Content-Type": "application/merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}


def version(name: str = "v1", *, storage: bool = True, **more: Any) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {"name": name, "served": True, "storage": storage, "schema": schema, **more}


def schema_of(properties: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    spec = {"type": "object", "properties": properties, **more}
    return {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}


def definition(*versions: dict[str, Any], scope: str = "Namespaced", **names: Any) -> dict[str, Any]:
    names = {"plural": "boxes", "kind": "Box", **names}
    return {
        "metadata": {"name": f"{names['plural']}.{GROUP}"},
        "spec": {"group": GROUP, "names": names, "scope": scope, "versions": list(versions) or [version()]},
    }


def box(name: str = "a", api_version: str = "v1", **content: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{api_version}", "kind": "Box", "metadata": {"name": name}, **content}


class CustomServer:
    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    async def request(
        self, method: str, path: str, value: Any = None, headers: Mapping[str, str] | None = None
    ) -> WireResponse:
        return await self.wire.request(method, path, value, headers=headers or {})

    async def define(self, value: dict[str, Any]) -> dict[str, Any]:
        """Create a definition and wait until it is established."""
        response = await self.request("POST", DEFINITIONS, value)
        assert response.code == 201, response.text
        return await self.wait_for(value["metadata"]["name"], "Established")

    async def wait_for(self, name: str, condition: str, status: str = "True") -> dict[str, Any]:
        async def definition_with_condition() -> dict[str, Any]:
            present: dict[str, Any] = (await self.request("GET", f"{DEFINITIONS}/{name}")).json
            conditions = present.get("status", {}).get("conditions") or ()
            has_condition = any((entry["type"], entry["status"]) == (condition, status) for entry in conditions)
            return present if has_condition else {}

        return await eventually(definition_with_condition)

    async def wait_gone(self, path: str) -> None:
        async def is_gone() -> bool:
            return (await self.request("GET", path)).code == 404

        await eventually(is_gone)

    async def create(self, value: dict[str, Any], path: str = BOXES) -> dict[str, Any]:
        response = await self.request("POST", path, value)
        assert response.code == 201, response.text
        created: dict[str, Any] = response.json
        return created


@asynccontextmanager
async def custom_server(port: int) -> AsyncIterator[CustomServer]:
    async with asyncio.timeout(60), Wire(port) as wire:
        yield CustomServer(wire)


def port_of(cluster: Cluster) -> int:
    return int(cluster.insecure_url.rpartition(":")[2])
