"""/api and /apis: discovery of the served groups, versions and resources, unaggregated and aggregated."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import msgspec

from sampan.api.codec import json as json_codec
from sampan.api.resources import discovery
from sampan.api.scheme import Scheme, parse_path
from sampan.api.types.apiregistration_v1 import APIService
from sampan.api.types.meta_v1 import APIResource
from sampan.apiserver.aggregation.discovery_documents import version_discovery
from sampan.apiserver.request import negotiation
from sampan.apiserver.request.call import Call
from sampan.apiserver.request.negotiation import OBJECT_MEDIA_TYPES, OutputFormat
from sampan.apiserver.response import renderer
from sampan.apiserver.response.responses import ApiResponse, RawResponse, ValueResponse, path_not_found
from sampan.machinery import errors

_AGGREGATED = ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2")
_CORE = "v1"


class RemoteVersion(Protocol):
    """A group version that another server serves."""

    @property
    def service(self) -> APIService: ...
    @property
    def resources(self) -> Sequence[APIResource]: ...
    @property
    def is_available(self) -> bool: ...


class RemoteDiscovery(Protocol):
    """The API groups of other servers."""

    @property
    def generation(self) -> int:
        """Incremented with every change."""

    def remote_versions(self) -> Mapping[str, Sequence[RemoteVersion]]:
        """Return the group versions by group, ordered by priority."""


class DiscoveryHandler:
    def __init__(self, *, scheme: Scheme, address: Callable[[], str], remotes: RemoteDiscovery | None = None) -> None:
        self._scheme, self._address, self._remotes = scheme, address, remotes
        self._kept: dict[str, bytes] = {}
        self._generation = (-1, -1)
        self._group_pieces: dict[tuple[str, str], tuple[int, int, bytes]] = {}
        """The parts of documents that are about one group, by document and group, with the generations of the group and
        of the groups of other servers. If one group changes, the parts of all other groups remain valid."""

    async def core(self, call: Call) -> ApiResponse:
        """Serve every path below /api that is not a resource."""
        parts = call.path.strip("/").split("/")
        if len(parts) == 1:
            _route(call)
            if (form := _negotiate_aggregated(call)) is not None:
                return await self._aggregate(call, form, "core")
            return self._respond_plain(call, _versions(self._address()))
        if len(parts) == 2 and parts[1] in self._scheme.versions(""):
            return self._resources(call, "", parts[1])
        if parts[2:] == ["watch"]:
            return _no_resource_response(call)
        raise errors.generic(404)

    async def groups(self, call: Call) -> ApiResponse:
        """Serve every path below /apis that is not a resource."""
        _, *parts = call.path.strip("/").split("/")
        if not parts:
            if (form := _negotiate_aggregated(call)) is not None:
                return await self._aggregate(call, form, "groups")
            return self._respond_plain(call, self._document("list", self._group_list))
        group = parts[0]
        if not group or (not self._scheme.has_group(group) and group not in self._remote_versions()):
            return path_not_found()
        if len(parts) == 1:
            return self._respond_plain(call, self._piece("group", group, lambda: self._group_document(group)))
        if len(parts) == 2 and parts[1] in self._scheme.versions(group):
            return self._resources(call, group, parts[1])
        if self._scheme.is_custom_group(group):
            return self._custom_not_found(call)
        if parts[2:] == ["watch"]:
            return _no_resource_response(call)
        raise errors.generic(404)

    def _custom_not_found(self, call: Call) -> ApiResponse:
        """Return the 404 response for a path of a custom group. For an unknown subresource, raise NotFound for the
        object."""
        path = parse_path(call.path)
        resource = self._scheme.resource(path.group, path.version, path.plural) if path is not None else None
        if path is not None and resource is not None and path.subresource:
            raise errors.not_found(resource.plural, path.name, group=resource.group)
        return path_not_found()

    # -- responses ---------------------------------------------------------------------------------------------------

    def _respond_plain(self, call: Call, raw: bytes) -> ApiResponse:
        call.output_format = negotiation.negotiate_plain(call.headers.get("Accept", ""))
        return ValueResponse(msgspec.Raw(raw))

    def _resources(self, call: Call, group: str, version: str) -> ApiResponse:
        if not self._scheme.is_custom_group(group):
            _route(call)
        key = f"resources {version}"
        return self._respond_plain(call, self._piece(key, group, lambda: _resource_list(self._scheme, group, version)))

    async def _aggregate(self, call: Call, form: OutputFormat, which: str) -> ApiResponse:
        raw = self._document(
            which, lambda: self._build_aggregated_document([""] if which == "core" else self._groups())
        )
        etag = f'"{self._document(f"tag {which}", lambda: _hash(raw)).decode()}"'
        headers = {"ETag": etag, "Vary": "Accept", "Cache-Control": "public"}
        kind, group, version = _AGGREGATED
        content_type = f"{form.media};g={group};v={version};as={kind}"
        if call.headers.get("If-None-Match") == etag:  # clients use its content type for the document they have cached
            return RawResponse(b"", content_type, 304, headers)
        return RawResponse(await renderer.encode_body(raw, form, call), content_type, 200, headers)

    # -- documents ---------------------------------------------------------------------------------------------------

    def _document(self, key: str, make: Callable[[], bytes]) -> bytes:
        """Return a cached document about all groups, which is assembled again if resources were added or removed."""
        generation = self._scheme.generation, self._remote_generation()
        if self._generation != generation:
            self._kept.clear()
            self._generation = generation
        document = self._kept.get(key)
        if document is None:
            document = self._kept[key] = make()
        return document

    def _piece(self, key: str, group: str, make: Callable[[], bytes]) -> bytes:
        """Return a cached document about one group, which is generated again if the group has changed."""
        generation = self._scheme.group_generation(group), self._remote_generation()
        cached = self._group_pieces.get((key, group))
        if cached is not None and cached[:2] == generation:
            return cached[2]
        piece = make()
        self._group_pieces[key, group] = (*generation, piece)
        return piece

    def _forget_removed_groups(self) -> None:
        remote = self._remote_versions()
        for key, group in list(self._group_pieces):
            if not self._scheme.has_group(group) and group not in remote:
                del self._group_pieces[key, group]

    def _remote_generation(self) -> int:
        return self._remotes.generation if self._remotes is not None else 0

    def _group_list(self) -> bytes:
        self._forget_removed_groups()
        groups = [msgspec.Raw(self._piece("listed", group, partial(self._group, group))) for group in self._groups()]
        return json_codec.encode({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})

    def _group(self, group: str) -> bytes:
        return json_codec.encode(_group(self._scheme, group, self._remote_versions().get(group, ())))

    def _group_document(self, group: str) -> bytes:
        document = _group(self._scheme, group, self._remote_versions().get(group, ()))
        return json_codec.encode({"kind": "APIGroup", "apiVersion": "v1", **document})

    def _build_aggregated_document(self, groups: list[str]) -> bytes:
        self._forget_removed_groups()
        items = [
            msgspec.Raw(self._piece("aggregated", group, partial(self._encode_group_discovery, group)))
            for group in groups
        ]
        kind, group, version = _AGGREGATED
        return json_codec.encode({"kind": kind, "apiVersion": f"{group}/{version}", "metadata": {}, "items": items})

    def _encode_group_discovery(self, group: str) -> bytes:
        return json_codec.encode(_group_discovery(self._scheme, group, self._remote_versions().get(group, ())))

    def _remote_versions(self) -> Mapping[str, Sequence[RemoteVersion]]:
        return self._remotes.remote_versions() if self._remotes is not None else {}

    def _groups(self) -> list[str]:
        """Return the groups of this server and of other servers by priority, without the core group."""
        priorities = {group: self._scheme.group_priority(group) for group in self._scheme.groups() if group}
        for group, versions in self._remote_versions().items():
            own = priorities.get(group, 0)
            priorities[group] = max(own, *(remote.service.spec.groupPriorityMinimum for remote in versions))
        return sorted(priorities, key=lambda group: (-priorities[group], group))


def _route(call: Call) -> None:
    """Perform the checks that kube-apiserver's router makes before the handler."""
    if call.method != "GET":
        raise errors.generic(405)
    negotiation.routes(call.headers.get("Accept", ""), OBJECT_MEDIA_TYPES)


def _no_resource_response(call: Call) -> RawResponse:
    why = f"failed to create RequestInfo: unable to determine kind and namespace from url, {call.path}"
    return RawResponse(f'Internal Server Error: "{call.path}": {why}\n'.encode(), code=500)


def _negotiate_aggregated(call: Call) -> OutputFormat | None:
    """Return the form of an aggregated document if any clause of the Accept header requests it; None for an
    unaggregated one."""
    accept = call.headers.get("Accept", "")
    if "APIGroupDiscoveryList" not in accept:
        return None
    for clause in negotiation.clauses(accept):
        if clause.conversion == _AGGREGATED:
            for offered in OBJECT_MEDIA_TYPES[:2]:
                if clause.takes(offered):
                    return OutputFormat(offered, is_pretty=clause.get("pretty") == "1")
    return None


def _versions(address: str) -> bytes:
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    versions = {"kind": "APIVersions", "versions": [_CORE], "serverAddressByClientCIDRs": addresses}
    return json_codec.encode(versions)


def _group(scheme: Scheme, group: str, remote: Sequence[RemoteVersion]) -> dict[str, Any]:
    names = list(dict.fromkeys([*scheme.versions(group), *(row.service.spec.version for row in remote)]))
    versions = [{"groupVersion": f"{group}/{version}", "version": version} for version in names]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _resource_list(scheme: Scheme, group: str, version: str) -> bytes:
    title = {"kind": "APIResourceList", "apiVersion": "v1"} if group else {"kind": "APIResourceList"}
    entries = discovery.api_resources(scheme.resources(group, version))
    name = f"{group}/{version}" if group else version
    return json_codec.encode({**title, "groupVersion": name, "resources": entries})


def _group_discovery(scheme: Scheme, group: str, remote: Sequence[RemoteVersion]) -> dict[str, Any]:
    versions = {
        version: discovery.version_discovery(version, scheme.resources(group, version))
        for version in scheme.versions(group)
    }
    for row in remote:
        name = row.service.spec.version
        versions[name] = version_discovery(name, row.resources, is_fresh=row.is_available)
    return {"metadata": {"name": group} if group else {}, "versions": list(versions.values())}


def _hash(raw: bytes) -> bytes:
    return hashlib.sha512(raw).hexdigest().upper().encode()
