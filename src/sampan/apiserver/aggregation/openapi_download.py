"""Reads the OpenAPI documents of other servers, within limits of size and time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

from sampan.api import limits
from sampan.apiserver.aggregation.openapi_conversion import to_v3
from sampan.apiserver.aggregation.openapi_documents import InvalidOpenApi, RemoteOpenApi, digest, used_part, v3_hash
from sampan.apiserver.request.call import UserInfo
from sampan.machinery.worker_thread import WorkerThread

if TYPE_CHECKING:
    from sampan.apiserver.aggregation.remote_api import RemoteApi

_USER = UserInfo("system:aggregator")
_TIMEOUT_S = 60.0
"""The longest time for the documents of a server."""
_worker = WorkerThread("sampan-openapi")


async def download(api: RemoteApi, group: str, version: str, known: RemoteOpenApi) -> RemoteOpenApi:
    """Return the current documents of a group version; `known` are those of the last download. Raise an ApiError,
    OSError, TimeoutError or `InvalidOpenApi`."""
    async with asyncio.timeout(_TIMEOUT_S):
        hash = await _v3_hash(api, f"apis/{group}/{version}")
        response = await api.get("/openapi/v2", _USER, etag=known.v2_etag, limit=limits.OPENAPI_DOCUMENT_BYTES)
        if response.code == HTTPStatus.NOT_MODIFIED and known.v2_etag:
            return await _documents(hash, known.v2, known.v2_etag, known.v2_hash)
        if response.code == HTTPStatus.NOT_FOUND:
            return RemoteOpenApi(v3_hash=hash)
        body = _checked(response.code, response.headers, response.body)
        part = await _worker.run(used_part, body, group, version)
        return await _documents(hash, part, response.headers.get("ETag", ""), digest(part))


async def _documents(hash: str | None, v2: bytes, etag: str, v2_hash: str) -> RemoteOpenApi:
    """Return the documents of a server. Without a v3 document, the v2 document is converted, as by kube-aggregator."""
    v3 = await _worker.run(to_v3, v2) if hash is None and v2 else b""
    return RemoteOpenApi(v3_hash=digest(v3) if v3 else hash, v3=v3, v2=v2, v2_etag=etag, v2_hash=v2_hash)


async def _v3_hash(api: RemoteApi, name: str) -> str | None:
    response = await api.get("/openapi/v3", _USER, limit=limits.OPENAPI_INDEX_BYTES)
    if response.code == HTTPStatus.NOT_FOUND:
        return None
    return await _worker.run(v3_hash, _checked(response.code, response.headers, response.body), name)


def _checked(code: int, headers: Mapping[str, str], body: bytes) -> bytes:
    if code != HTTPStatus.OK:
        raise InvalidOpenApi(f"failed to retrieve openAPI spec, http error: {code}")
    if "Content-Encoding" in headers:
        raise InvalidOpenApi("the OpenAPI document is compressed, which was not requested")
    return body
