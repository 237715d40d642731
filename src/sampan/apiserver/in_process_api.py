"""The Kubernetes API with the rights of one user, for servers in the process of the API server.

Requests enter the pipeline at authentication, with the user's own token, password or verified certificate, so that a
revoked token or an expired certificate is rejected with the next request. Flow control, authorization, admission and
audit apply to them as to requests from the network.
"""

from __future__ import annotations

import base64
import hashlib
import os
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
from multidict import CIMultiDict

from sampan.api.codec.errors import JSON_ERRORS
from sampan.apiserver.http.acceptor import ApiConnection
from sampan.apiserver.http.http_request import FlowSeat
from sampan.apiserver.http.server import HttpServer
from sampan.apiserver.http.tls import classify_client_certificate
from sampan.apiserver.http.watch_server import watch_error
from sampan.apiserver.pipeline import Pipeline
from sampan.apiserver.request.call import Call, Query
from sampan.apiserver.response.responses import (
    ApiResponse,
    StreamedResponse,
    WatchResponse,
    api_error_of,
)
from sampan.host.http import HttpRequest, StreamResponse
from sampan.machinery import errors
from sampan.machinery.client.responses import BytesResponse
from sampan.machinery.client.transport import Request
from sampan.machinery.client.user_api import EventLines, PrepareResponse, UserApi, UserCredentials
from sampan.machinery.pki.server_tls import PeerCertificate, read_peer
from sampan.storage.cacher import CacheError

_HANDSHAKE_ROUNDS = 10


class _SavedCredentials(msgspec.Struct):
    """Credentials of a user as they are saved: the value of the Authorization header, or what a verified certificate
    says, without its key. `authorities` identifies the CAs that the server trusted then."""

    authorization: str
    certificate: tuple[str, tuple[str, ...], float] | None
    authorities: str


_decode_saved = msgspec.json.Decoder(_SavedCredentials).decode


class InProcessApi:
    """A transport that sends the requests of one user to the API server in this process. `authorization` is the value
    of the Authorization header; it is empty if the user has a certificate."""

    def __init__(
        self, *, http: HttpServer, pipeline: Pipeline, authorization: str, certificate: PeerCertificate | None
    ) -> None:
        self._http, self._pipeline = http, pipeline
        self._authorization, self._certificate = authorization, certificate

    @property
    def authorization(self) -> str:
        return self._authorization

    @property
    def certificate(self) -> PeerCertificate | None:
        return self._certificate

    async def send(self, request: Request) -> BytesResponse:
        seat = _InProcessSeat(self._http, request)
        call = self._call(request, seat)
        try:
            response = await self._serve(call)
            if isinstance(response, WatchResponse | StreamedResponse):
                raise errors.bad_request("the response is a stream, which needs a connection of its own")
            rendered = await self._http.renderer.render(response, call.output_format, call)
            body = b"".join(rendered.chunks)
        finally:
            seat.leave()
        if rendered.code >= 400:
            raise errors.generic(rendered.code, body.decode("utf-8", "replace"), is_unexpected=True)
        return BytesResponse(rendered.code, {"Content-Type": rendered.content_type, **rendered.headers}, body)

    @asynccontextmanager
    async def watch(self, request: Request) -> AsyncIterator[EventLines]:
        seat = _InProcessSeat(self._http, request)
        call = self._call(request, seat)
        try:
            response = await self._serve(call)
        finally:
            seat.leave()
        if not isinstance(response, WatchResponse):
            raise errors.bad_request("the request is not a watch")
        frames = self._http.renderer.frames(response, call)

        async def lines() -> EventLines:
            try:
                async for events in watcher:
                    yield frames.encode(events)
            except CacheError as error:
                raise watch_error(error, call) from error

        try:
            watcher = await response.watcher.__aenter__()
        except CacheError as error:
            raise watch_error(error, call) from error
        try:
            yield lines()
        finally:
            await watcher.__aexit__(None, None, None)
            if call.audit is not None:
                call.audit.complete()

    async def forward(
        self, request: HttpRequest, *, target: str, headers: CIMultiDict[str], prepare: PrepareResponse
    ) -> StreamResponse | None:
        if self._authorization:
            headers["Authorization"] = self._authorization
        delegated = request.derive(target=target, headers=headers, prepare_response=prepare)
        await self._http.serve_delegated(delegated, self._certificate)
        return None

    async def close(self) -> None:
        """Do nothing: there are no connections."""

    def _call(self, request: Request, seat: _InProcessSeat) -> Call:
        headers = CIMultiDict(request.headers)
        if self._authorization:
            headers["Authorization"] = self._authorization
        return Call(
            method=request.method,
            path=request.path,
            query=Query.from_pairs(request.query),
            headers=headers,
            body=request.body,
            client_certificate=self._certificate,
            transport=seat,
        )

    async def _serve(self, call: Call) -> ApiResponse:
        try:
            return await self._pipeline.serve(call)
        except errors.ApiError:
            raise
        except Exception as error:
            raise api_error_of(error, call) from error


class InProcessApiSource:
    """Opens an `InProcessApi` with the credentials of a user. `tls` returns the TLS context of the secure port, which
    verifies client certificates; None if there is no secure port."""

    def __init__(self, *, http: HttpServer, pipeline: Pipeline, tls: Callable[[], ssl.SSLContext | None]) -> None:
        self._http, self._pipeline, self._tls = http, pipeline, tls

    async def open_with_credentials(self, credentials: UserCredentials) -> InProcessApi:
        if credentials.token:
            return self._api(f"Bearer {credentials.token}", None)
        if credentials.username:
            pair = f"{credentials.username}:{credentials.password}".encode()
            return self._api(f"Basic {base64.b64encode(pair).decode()}", None)
        return self._api("", self._verify_certificate(credentials))

    async def open_for_request(self, request: HttpRequest) -> InProcessApi:
        connection = request.connection
        if isinstance(connection, ApiConnection) and connection.client_certificate is not None:
            return self._api("", connection.client_certificate)
        authorization = request.headers.get("Authorization", "")
        if not authorization:
            raise errors.unauthorized()
        return self._api(authorization, None)

    def save(self, api: UserApi) -> bytes:
        """Return the credentials of an API. A private key is not among them: the certificate is verified already, and
        stays valid for as long as the server trusts the same CAs."""
        assert isinstance(api, InProcessApi)
        peer = api.certificate
        certificate = (peer.common_name, peer.organizations, peer.expires) if peer is not None else None
        return msgspec.json.encode(_SavedCredentials(api.authorization, certificate, self._authorities()))

    def restore(self, saved: bytes) -> InProcessApi:
        try:
            credentials = _decode_saved(saved)
        except JSON_ERRORS:
            raise errors.unauthorized() from None
        if credentials.certificate is None:
            return self._api(credentials.authorization, None)
        if credentials.authorities != self._authorities():
            raise errors.unauthorized()
        return self._api("", PeerCertificate(*credentials.certificate))

    def _authorities(self) -> str:
        """Return a hash of the CAs that sign client certificates."""
        context = self._tls()
        certificates = sorted(context.get_ca_certs(binary_form=True)) if context is not None else []
        return hashlib.sha256(b"".join(certificates)).hexdigest()

    def _api(self, authorization: str, certificate: PeerCertificate | None) -> InProcessApi:
        return InProcessApi(
            http=self._http, pipeline=self._pipeline, authorization=authorization, certificate=certificate
        )

    def _verify_certificate(self, credentials: UserCredentials) -> PeerCertificate:
        """Verify a certificate and the possession of its key by a TLS handshake in memory with the secure port's own
        context."""
        context = self._tls()
        if context is None or not credentials.client_cert_pem or context.verify_mode is ssl.CERT_NONE:
            raise errors.unauthorized()
        try:
            certificate = _handshake(context, credentials)
        except (ssl.SSLError, ValueError, OSError):
            raise errors.unauthorized() from None
        if certificate is None:
            raise errors.unauthorized()
        return certificate


class _InProcessSeat(FlowSeat):
    """The transport of a request that did not arrive by HTTP. Its body is complete."""

    __slots__ = ("_request",)

    def __init__(self, http: HttpServer, request: Request) -> None:
        super().__init__(http.in_flight_limiter)
        self._request = request

    @property
    def target(self) -> str:
        return self._request.path

    @property
    def remote_address(self) -> str:
        return "127.0.0.1"

    async def read_body(self, call: Call) -> None:
        return None


def _handshake(server_context: ssl.SSLContext, credentials: UserCredentials) -> PeerCertificate | None:
    """Return the certificate as the server has verified it; None if it does not identify a user."""
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.check_hostname, client_context.verify_mode = False, ssl.CERT_NONE
    handle, name = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(credentials.client_cert_pem.rstrip() + b"\n" + credentials.client_key_pem)
        client_context.load_cert_chain(name, password=lambda: b"")
    finally:
        os.unlink(name)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_side=False)
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    for side in [client, server] * _HANDSHAKE_ROUNDS:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
        if side is server:
            break
    peer = server.getpeercert()
    if not peer:
        return None
    return classify_client_certificate(server, read_peer(peer))[0]
