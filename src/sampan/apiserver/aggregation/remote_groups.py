"""The group versions that other servers serve: requests for them are proxied, and their documents are added to those of
this server. `AggregationController` keeps them in step with the APIServices."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sampan.api.types.apiregistration_v1 import APIService
from sampan.api.types.meta_v1 import APIResource
from sampan.apiserver.aggregation.openapi_documents import RemoteOpenApi
from sampan.apiserver.aggregation.remote_api import RemoteApi
from sampan.apiserver.request.call import Call
from sampan.apiserver.response.responses import ApiResponse, RawResponse


@dataclass(slots=True)
class RemoteGroupVersion:
    """A group version that another server serves."""

    service: APIService
    api: RemoteApi
    available: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    resources: Sequence[APIResource] = ()
    """The resources as of the last successful check."""
    openapi: RemoteOpenApi = field(default_factory=RemoteOpenApi)
    """The OpenAPI documents as of the last successful read."""
    tasks: list[asyncio.Task[None]] = field(default_factory=list, repr=False)

    @property
    def is_available(self) -> bool:
        return self.available.is_set()

    def is_for(self, service: APIService) -> bool:
        """Whether `service` is the same APIService with an unchanged spec, so that requests are still proxied
        correctly."""
        return self.service.metadata.uid == service.metadata.uid and self.service.spec == service.spec


class RemoteGroups:
    def __init__(self) -> None:
        self._remotes: dict[tuple[str, str], RemoteGroupVersion] = {}
        self.generation = 0
        """Incremented with every change of the discovery documents."""

    # -- requests ----------------------------------------------------------------------------------------------------

    async def serve(self, call: Call) -> ApiResponse | None:
        """Return the response of another server to a request for its group version; None if this server serves it."""
        parts = call.path.split("/", 4)
        remote = self._remotes.get((parts[2], parts[3])) if len(parts) > 3 and parts[1] == "apis" else None
        if remote is None:
            return None
        if not remote.is_available:
            headers = {"X-Content-Type-Options": "nosniff"}
            return RawResponse(b"service unavailable\n", code=503, headers=headers)
        return await remote.api.serve(call)

    def remote_versions(self) -> dict[str, list[RemoteGroupVersion]]:
        """Return the group versions of other servers by group, ordered by priority."""
        groups: dict[str, list[RemoteGroupVersion]] = {}
        for (group, _), remote in sorted(self._remotes.items()):
            groups.setdefault(group, []).append(remote)
        for versions in groups.values():
            versions.sort(key=lambda remote: -remote.service.spec.versionPriority)
        return groups

    def openapi_documents(self) -> Mapping[str, RemoteOpenApi]:
        """Return the OpenAPI documents of other servers that are available, by the name of the v3 document."""
        remotes = [remote for versions in self.remote_versions().values() for remote in versions]
        remotes.sort(key=lambda remote: -remote.service.spec.groupPriorityMinimum)
        return {_document_name(remote.service): remote.openapi for remote in remotes if remote.is_available}

    async def serve_openapi(self, call: Call, name: str) -> ApiResponse:
        """Proxy a request for the v3 document of a group version, which `openapi_documents` lists."""
        _, group, version = name.split("/")
        return await self._remotes[group, version].api.serve(call)

    # -- changes -----------------------------------------------------------------------------------------------------

    def get(self, key: tuple[str, str]) -> RemoteGroupVersion | None:
        return self._remotes.get(key)

    def group_versions(self) -> set[tuple[str, str]]:
        return set(self._remotes)

    def add(self, key: tuple[str, str], remote: RemoteGroupVersion) -> None:
        self._remotes[key] = remote
        self.record_change()

    def remove(self, key: tuple[str, str]) -> RemoteGroupVersion:
        remote = self._remotes.pop(key)
        self.record_change()
        return remote

    def record_change(self) -> None:
        """Have the discovery documents made again."""
        self.generation += 1


def _document_name(service: APIService) -> str:
    return f"apis/{service.spec.group}/{service.spec.version}"
