"""The `ClusterReader` of the diagnosis for commands: reads over the HTTP session of a command."""

from __future__ import annotations

from collections.abc import Mapping

from sampan.diagnosis.cluster_reader import Object
from sampan.kubectl.client.resource_types import ResourceTypes
from sampan.kubectl.client.session import Session
from sampan.kubectl.errors import ServerError
from sampan.machinery.cli_errors import CliError

_TOLERATED = (403, 404, 503)
"""HTTP status codes for which a read returns nothing: the user may not read an optional source, or the server is not
Sampan's."""


class SessionReader:
    def __init__(self, session: Session) -> None:
        self._session, self._types = session, ResourceTypes(session)

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Object | None:
        try:
            value: Object = self._session.get(path, query)
        except ServerError as error:
            if error.error.code not in _TOLERATED:
                raise
            return None
        return value

    async def lines(self, path: str, query: Mapping[str, str]) -> list[Object]:
        try:
            return list(self._session.lines(path, query))
        except ServerError as error:
            if error.error.code not in _TOLERATED:
                raise
            return []

    async def object_path(self, api_version: str, kind: str, namespace: str, name: str) -> str:
        try:
            return self._types.find_by_kind(api_version, kind).object(namespace, name)
        except (ServerError, CliError):
            return ""
