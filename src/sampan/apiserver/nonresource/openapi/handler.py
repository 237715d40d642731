"""Serving of OpenAPI documents.

They are generated on demand in a thread, and the most recently used ones are cached. Their hashes, which the index
contains and which clients use for caching, are computed from the resources, so that the index does not require
generating any document. The documents of aggregated API servers are listed in the index and proxied (v3), and merged
into the own document (v2); a document of this server takes precedence.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from sampan import __version__
from sampan.apiserver import descriptions
from sampan.apiserver.request import negotiation
from sampan.apiserver.request.call import Call
from sampan.apiserver.request.negotiation import JSON
from sampan.apiserver.response import renderer
from sampan.apiserver.response.responses import ApiResponse, RawResponse, path_not_found
from sampan.host.keyed_locks import KeyedLocks
from sampan.host.worker_thread import WorkerThread

if TYPE_CHECKING:
    from sampan.apiserver.aggregation.openapi_documents import RemoteOpenApi
    from sampan.apiserver.nonresource.openapi.documents import OpenApiContents
    from sampan.apiserver.registry.registry import Registry

FORMAT = 1
"""Must be incremented when the generated documents change although the resources are the same."""
_PROTOBUF_2 = (
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
)
_CACHE_SIZE = 12
_YEAR = timedelta(days=365)


class RemoteDocuments(Protocol):
    """The OpenAPI documents of aggregated API servers."""

    def openapi_documents(self) -> Mapping[str, RemoteOpenApi]:
        """Return the documents by the name of the v3 document, ordered by priority."""

    async def serve_openapi(self, call: Call, name: str) -> ApiResponse:
        """Respond with a v3 document."""


class OpenApiHandler:
    def __init__(self, *, registry: Registry, remotes: RemoteDocuments | None = None) -> None:
        self._registry, self._remotes = registry, remotes
        self._worker, self._turns = WorkerThread("sampan-openapi"), KeyedLocks()
        self._generation = -1
        self._contents: OpenApiContents | None = None
        self._kept: dict[str, tuple[str, bytes]] = {}
        """Hash and compressed text of generated documents; the most recently used last."""
        self._hashes: dict[str, tuple[int, str]] = {}
        """Hashes of documents by name, with the generation of the group that the document is about."""

    async def handle(self, call: Call) -> ApiResponse:
        if call.path == "/openapi/v2":
            return await self._v2(call)
        if call.path == "/openapi/v3":
            return self._index(call)
        if call.path.startswith("/openapi/v3/"):
            return await self._v3(call, call.path.removeprefix("/openapi/v3/"))
        return path_not_found()

    def _index(self, call: Call) -> ApiResponse:
        hashes = {name: document.v3_hash for name, document in self._remote_documents().items()}
        hashes |= {name: self._hash(name) for name in self._refresh_contents().names()}
        listed = sorted((name, hash) for name, hash in hashes.items() if hash is not None)
        raw = msgspec.json.encode({"paths": {name: {"serverRelativeURL": _url(name, hash)} for name, hash in listed}})
        return _respond_conditionally(call, raw, JSON, {"ETag": f'"{_digest(raw)}"'})

    async def _v3(self, call: Call, name: str) -> ApiResponse:
        headers, contents = {"Vary": "Accept"}, self._refresh_contents()
        converted = b""
        if name in contents.names():
            hash = self._hash(name)
        else:
            remotes, document = self._remotes, self._remote_documents().get(name)
            if remotes is None or document is None or document.v3_hash is None:
                return RawResponse(b"", code=404)
            if not document.v3:
                return await remotes.serve_openapi(call, name)
            hash, converted = document.v3_hash, document.v3
        if not _accepts(call, JSON):
            return RawResponse(b"", code=406, headers=headers)
        headers["ETag"] = f'"{hash}"'
        if requested_hash := call.query.get("hash"):
            if requested_hash != hash:
                return RawResponse(b"", code=301, headers={**headers, "Location": _url(name, hash)})
            headers |= {"Cache-Control": "public, immutable", "Expires": _format_next_year(self._registry.clock.now())}
        if _is_current(call, headers):
            return RawResponse(b"", JSON, 304, headers)
        from sampan.apiserver.nonresource.openapi.documents import NoDocument

        try:
            packed = await self._document(f"v3 {name}", hash, lambda: converted or _v3_document(contents, name))
        except NoDocument:
            return RawResponse(b"", code=404)
        return await self._respond_packed(call, packed, JSON, headers)

    async def _v2(self, call: Call) -> ApiResponse:
        from sampan.apiserver.aggregation.openapi_documents import encode_document

        contents = self._refresh_contents()
        parts = {document.v2_hash: document.v2 for document in self._remote_documents().values() if document.v2}
        hash = _digest("".join([*(self._hash(name) for name in contents.names()), *parts]).encode())
        headers = {"Vary": "Accept", "ETag": f'"{hash}"'}
        encode: Callable[[dict[str, Any]], bytes]
        for clause in negotiation.clauses(call.headers.get("Accept", "") or "*/*"):
            if clause.takes(JSON):
                content_type, encode = JSON, encode_document
                break
            if any(clause.takes(offered) for offered in _PROTOBUF_2):
                content_type, encode = _PROTOBUF_2[1], _v2_message
                break
        else:
            return RawResponse(b"", code=406, headers={"Vary": "Accept"})
        if _is_current(call, headers):
            return RawResponse(b"", content_type, 304, headers)
        packed = await self._document(
            f"v2 {content_type}", hash, lambda: encode(_v2_document(contents, list(parts.values())))
        )
        return await self._respond_packed(call, packed, content_type, headers)

    def _remote_documents(self) -> Mapping[str, RemoteOpenApi]:
        return self._remotes.openapi_documents() if self._remotes is not None else {}

    # -- caches ------------------------------------------------------------------------------------------------------

    def _refresh_contents(self) -> OpenApiContents:
        """Return the current contents, created again if resources were added or removed."""
        from sampan.apiserver.nonresource.openapi.documents import OpenApiContents

        if self._contents is None or self._generation != self._registry.scheme.generation:
            self._contents, self._generation = OpenApiContents(self._registry), self._registry.scheme.generation
            self._hashes = {name: self._hashes[name] for name in self._contents.names() if name in self._hashes}
        return self._contents

    def _hash(self, name: str) -> str:
        contents = self._refresh_contents()
        versions = contents.versions(name)
        generation = sum(self._registry.scheme.group_generation(group) for group, _ in versions)
        if (cached := self._hashes.get(name)) is not None and cached[0] == generation:
            return cached[1]
        parts = [str(FORMAT), __version__, name, str(descriptions.are_installed())]
        parts += [repr(resource) for version in versions for resource in contents.resources(*version)]
        digest = _digest("\n".join(parts).encode())
        self._hashes[name] = generation, digest
        return digest

    async def _document(self, key: str, hash: str, make: Callable[[], bytes]) -> bytes:
        """Return the compressed document; `make` generates it only if `hash`, the hash of its content, has changed.
        Concurrent requests share one document. It is not kept if resources have changed while it was made."""
        async with self._turns.held(key):
            kept_hash, packed = self._kept.pop(key, ("", b""))
            if kept_hash != hash:
                generation = self._registry.scheme.generation
                packed = await self._worker.run(lambda: zlib.compress(make(), 1, 16 + zlib.MAX_WBITS))
                if generation != self._registry.scheme.generation:
                    return packed
                if len(self._kept) >= _CACHE_SIZE:
                    del self._kept[next(iter(self._kept))]
            self._kept[key] = hash, packed
            return packed

    async def _respond_packed(
        self, call: Call, packed: bytes, content_type: str, headers: dict[str, str]
    ) -> RawResponse:
        """Return the compressed document to clients that accept gzip, and to others decompressed: in a thread, because
        a document has megabytes."""
        if renderer.wants_gzip(call.headers.get("Accept-Encoding", "")):
            return RawResponse(packed, content_type, 200, {**headers, "Content-Encoding": "gzip"})
        unpacked = await self._worker.run(zlib.decompress, packed, 16 + zlib.MAX_WBITS)
        return RawResponse(unpacked, content_type, 200, headers)


def _v3_document(contents: OpenApiContents, name: str) -> bytes:
    from sampan.apiserver.nonresource.openapi import documents

    return msgspec.json.encode(documents.document(contents, name))


def _v2_document(contents: OpenApiContents, parts: Sequence[bytes]) -> dict[str, Any]:
    """Return the v2 document of this server, merged with the parts of aggregated API servers."""
    from sampan.apiserver.nonresource.openapi import v2

    own = v2.document(contents)
    if not parts:
        return own
    from sampan.apiserver.aggregation.openapi_documents import merge_documents

    return merge_documents(own, parts)


def _v2_message(document: dict[str, Any]) -> bytes:
    from sampan.apiserver.nonresource.openapi import v2

    return v2.encode(document)


def _accepts(call: Call, media: str) -> bool:
    return any(clause.takes(media) for clause in negotiation.clauses(call.headers.get("Accept", "") or "*/*"))


def _respond_conditionally(call: Call, raw: bytes, content_type: str, headers: dict[str, str]) -> RawResponse:
    if _is_current(call, headers):
        return RawResponse(b"", content_type, 304, headers)
    return RawResponse(raw, content_type, 200, headers)


def _is_current(call: Call, headers: dict[str, str]) -> bool:
    """Whether the client has the current version."""
    return headers["ETag"] in [tag.strip() for tag in call.headers.get("If-None-Match", "").split(",")]


def _url(name: str, hash: str) -> str:
    return f"/openapi/v3/{name}?hash={hash}" if hash else f"/openapi/v3/{name}"


def _digest(data: bytes) -> str:
    return hashlib.sha512(data).hexdigest().upper()


def _format_next_year(now: float) -> str:
    return (datetime.fromtimestamp(now, UTC) + _YEAR).strftime("%a, %d %b %Y %H:%M:%S GMT")
