"""A group version that a service in the cluster serves: requests are proxied to it with the user in headers."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from sampan.api import limits
from sampan.api.types.apiregistration_v1 import APIService
from sampan.apiserver.aggregation.openapi_conversion import to_v3
from sampan.apiserver.aggregation.openapi_documents import InvalidOpenApi, RemoteOpenApi, digest, extract_part, v3_hash
from sampan.apiserver.proxy.kubelets import make_unverified_context
from sampan.apiserver.proxy.locations import Location, unreachable_error
from sampan.apiserver.proxy.proxied import locate_service
from sampan.apiserver.request.call import UserInfo
from sampan.apiserver.response.responses import ApiResponse, RawResponse, StreamedResponse
from sampan.host.http import HttpRequest, StreamResponse
from sampan.host.worker_thread import WorkerThread
from sampan.machinery import errors
from sampan.machinery.client.access import verifying_context

if TYPE_CHECKING:
    from sampan.apiserver.proxy.upstream import UpstreamClient
    from sampan.apiserver.registry.registry import Registry
    from sampan.apiserver.request.call import Call
log = logging.getLogger(__name__)

_HTTPS = 443
ClientFiles = tuple[Path, Path]
"""The files of a client certificate and its key."""
_PASSED = ("Accept", "Accept-Encoding", "Content-Type", "If-None-Match", "User-Agent")
_AGGREGATOR = UserInfo("system:aggregator")
_DOWNLOAD_TIMEOUT_S = 60.0
"""The timeout for downloading the OpenAPI documents of a server."""
_openapi_worker = WorkerThread("sampan-openapi")


class RemoteApi:
    """The server of one APIService."""

    def __init__(
        self, *, registry: Registry, upstream: UpstreamClient, service: APIService, client: ClientFiles | None = None
    ) -> None:
        """`client` is the certificate and key with which the service authenticates this server as a front proxy."""
        reference = service.spec.service
        if reference is None:
            raise ValueError(f"{service.metadata.name} names no service")
        self._registry, self._upstream = registry, upstream
        self._namespace, self._name, self._port = reference.namespace, reference.name, reference.port or _HTTPS
        self._server_name = f"{self._name}.{self._namespace}.svc"
        self._tls = _context(service)
        if client is not None:
            try:
                self._tls.load_cert_chain(*client)
            except OSError as error:
                log.error("cannot load the proxy client certificate %s: %s", client[0], error)

    async def serve(self, call: Call) -> ApiResponse:
        """Proxy a request that this server has authorized. Watches and upgraded connections are streamed."""
        query = urlencode(list(call.query.pairs()))
        target = f"{quote(call.path)}{'?' if query else ''}{query}"
        location = await self._location()
        if call.method == "GET" and (call.query.flag("watch") or call.query.flag("follow") or _is_upgrade(call)):
            return self._make_streamed_response(call, location, target)
        headers = [(name, call.headers[name]) for name in _PASSED if name in call.headers]
        try:
            return await self._upstream.ask(
                location,
                target,
                method=call.method,
                body=call.body,
                headers=[*headers, *_user_headers(call.user)],
                tls=self._tls,
                server_name=self._server_name,
            )
        except OSError as error:
            raise unreachable_error(str(error)) from None

    async def get(
        self, path: str, user: UserInfo, *, etag: str = "", limit: int = limits.AGGREGATED_RESPONSE_BYTES
    ) -> RawResponse:
        """Send a GET request as `user` and return the response, a JSON document. With `etag` the request is
        conditional: the response is 304 if the document is unchanged. Raise an ApiError or OSError, also if the
        document has more than `limit` bytes."""
        headers = [("Accept", "application/json"), *_user_headers(user)]
        if etag:
            headers.append(("If-None-Match", etag))
        location = await self._location()
        return await self._upstream.ask(
            location, path, headers=headers, tls=self._tls, server_name=self._server_name, limit=limit
        )

    def _make_streamed_response(self, call: Call, location: Location, target: str) -> StreamedResponse:
        async def serve(request: HttpRequest) -> StreamResponse | None:
            verified = location.with_tls(self._tls, self._server_name)
            return await self._upstream.forward(request, verified, target, None, user=list(_user_headers(call.user)))

        return StreamedResponse(serve)

    async def _location(self) -> Location:
        try:
            return await locate_service(
                self._registry, self._upstream.kubelets, namespace=self._namespace, name=self._name, port=self._port
            )
        except errors.NotFound as error:  # it is the service that is missing, not the requested object
            raise errors.service_unavailable(str(error)) from None


def _is_upgrade(call: Call) -> bool:
    return "upgrade" in call.headers.get("Connection", "").lower()


def _context(service: APIService) -> ssl.SSLContext:
    if service.spec.insecureSkipTLSVerify:
        return make_unverified_context()
    try:
        return verifying_context(service.spec.caBundle)
    except (ssl.SSLError, ValueError):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts no CA, so that the connection is rejected


def _user_headers(user: UserInfo) -> Iterator[tuple[str, str]]:
    yield "X-Remote-User", user.name
    if user.uid:
        yield "X-Remote-Uid", user.uid
    for group in user.groups:
        yield "X-Remote-Group", group
    for key, values in user.extra.items():
        for value in values:
            yield f"X-Remote-Extra-{quote(key, safe='')}", value


async def download_openapi(api: RemoteApi, group: str, version: str, previous: RemoteOpenApi) -> RemoteOpenApi:
    """Return the current documents of a group version; `previous` are those of the last download. Raise an ApiError,
    OSError, TimeoutError or `InvalidOpenApi`."""
    async with asyncio.timeout(_DOWNLOAD_TIMEOUT_S):
        hash = await _v3_hash(api, f"apis/{group}/{version}")
        response = await api.get("/openapi/v2", _AGGREGATOR, etag=previous.v2_etag, limit=limits.OPENAPI_DOCUMENT_BYTES)
        if response.code == HTTPStatus.NOT_MODIFIED and previous.v2_etag:
            return await _documents(hash, previous.v2, previous.v2_etag, previous.v2_hash)
        if response.code == HTTPStatus.NOT_FOUND:
            return RemoteOpenApi(v3_hash=hash)
        body = _check_document(response.code, response.headers, response.body)
        part = await _openapi_worker.run(extract_part, body, group, version)
        return await _documents(hash, part, response.headers.get("ETag", ""), digest(part))


async def _documents(hash: str | None, v2: bytes, etag: str, v2_hash: str) -> RemoteOpenApi:
    """Return the documents of a server. Without a v3 document, the v2 document is converted, as by kube-aggregator."""
    v3 = await _openapi_worker.run(to_v3, v2) if hash is None and v2 else b""
    return RemoteOpenApi(v3_hash=digest(v3) if v3 else hash, v3=v3, v2=v2, v2_etag=etag, v2_hash=v2_hash)


async def _v3_hash(api: RemoteApi, name: str) -> str | None:
    response = await api.get("/openapi/v3", _AGGREGATOR, limit=limits.OPENAPI_INDEX_BYTES)
    if response.code == HTTPStatus.NOT_FOUND:
        return None
    return await _openapi_worker.run(v3_hash, _check_document(response.code, response.headers, response.body), name)


def _check_document(code: int, headers: Mapping[str, str], body: bytes) -> bytes:
    if code != HTTPStatus.OK:
        raise InvalidOpenApi(f"failed to retrieve openAPI spec, http error: {code}")
    if "Content-Encoding" in headers:
        raise InvalidOpenApi("the OpenAPI document is compressed, which was not requested")
    return body
