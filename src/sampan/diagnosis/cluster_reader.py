"""The interface through which the diagnosis reads from a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

Object = Mapping[str, Any]
RECORDS_PATH = "/debug/flightrecorder"


class ClusterReader(Protocol):
    """Reads with the rights of a user. If the user may not read something, or the server does not have it (403, 404,
    503), the result is None or empty. Any other error is raised."""

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Object | None:
        """Return the response to a GET request."""

    async def lines(self, path: str, query: Mapping[str, str]) -> list[Object]:
        """Return the response to a GET request for JSON lines."""

    async def object_path(self, api_version: str, kind: str, namespace: str, name: str) -> str:
        """Return the path of an object; empty if the server does not have the kind."""


async def read_items(reader: ClusterReader, path: str, query: Mapping[str, str] | None = None) -> list[Object]:
    return list((await reader.get(path, query) or {}).get("items") or ())
