"""Reads of JSON values with the rights of a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from sampan.api.codec.errors import JSON_ERRORS
from sampan.diagnosis.cluster_reader import Object
from sampan.machinery import errors
from sampan.machinery.client.transport import Request
from sampan.machinery.client.user_api import UserApi

_TOLERATED = (403, 404, 503)
_decode = msgspec.json.Decoder().decode


class ApiReader:
    def __init__(self, api: UserApi) -> None:
        self.api = api

    async def read(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """Return the response to a GET request; raise ApiError for any error."""
        request = Request(
            method="GET", path=path, query=list((query or {}).items()), headers={"Accept": "application/json"}
        )
        return decode((await self.api.send(request)).body())

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Object | None:
        try:
            value: Object = await self.read(path, query)
        except errors.ApiError as error:
            if error.code not in _TOLERATED:
                raise
            return None
        return value

    async def read_lines(self, path: str, query: Mapping[str, str]) -> list[Object]:
        """Return the JSON lines of a response; raise ApiError for any error."""
        request = Request(method="GET", path=path, query=list(query.items()), headers={"Accept": "*/*"})
        return [decode(line) for line in (await self.api.send(request)).body().splitlines() if line]

    async def lines(self, path: str, query: Mapping[str, str]) -> list[Object]:
        try:
            return await self.read_lines(path, query)
        except errors.ApiError as error:
            if error.code not in _TOLERATED:
                raise
            return []

    async def object_path(self, api_version: str, kind: str, namespace: str, name: str) -> str:
        resource = await self.resource(api_version, kind)
        if resource is None:
            return ""
        return object_path(api_version, resource, namespace, name)

    async def resource(self, api_version: str, kind: str) -> Object | None:
        """Return the entry of a kind in the discovery document of its group version; None if there is none."""
        document = await self.get(f"{group_path(api_version)}")
        resources = (document or {}).get("resources") or ()
        return next((row for row in resources if row.get("kind") == kind and "/" not in row.get("name", "/")), None)


def group_path(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def object_path(api_version: str, resource: Object, namespace: str, name: str) -> str:
    """Return the path of an object; that of its collection if the name is empty."""
    scope = f"/namespaces/{namespace}" if resource.get("namespaced") and namespace else ""
    return f"{group_path(api_version)}{scope}/{resource['name']}" + (f"/{name}" if name else "")


def decode(body: bytes) -> Any:
    try:
        return _decode(body)
    except JSON_ERRORS as error:
        raise errors.internal_error(f"cannot decode the response of the server: {error}") from None
