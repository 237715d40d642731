"""The client of webhooks: a POST to a URL, or to one of the endpoints of a service, over verified TLS.

Connections are kept and shared by webhooks with equal CA bundles. A service is reached at the address of one of its
endpoints, because cluster IPs are routed on nodes only, and the API server need not be on a node.

The Protocols describe where a webhook is, as admissionregistration.k8s.io and apiextensions.k8s.io do.
"""

from __future__ import annotations

import asyncio
import posixpath
import ssl
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from yarl import URL

from sampan.api import limits
from sampan.apiserver.proxy.locations import Location
from sampan.host.bounded_cache import BoundedCache
from sampan.machinery import errors
from sampan.machinery.client.access import verifying_context

if TYPE_CHECKING:
    from sampan.apiserver.proxy.kubelets import Kubelets
    from sampan.apiserver.registry.registry import Registry
    from sampan.apiserver.webhooks.connections import KeptConnections


_HTTPS = 443
_HEADERS = "Content-Type: application/json\r\nAccept: application/json\r\nUser-Agent: sampan\r\n"
_CONTEXT_BYTES = 64 << 10
"""The memory that a TLS context takes, which cannot be measured."""
"""The number of CA bundles whose connections are kept."""
_KEEP_S = 30.0
_CONNECTIONS_PER_HOST = 100
_ERROR_TEXT_BYTES = 2048


class WebhookFailed(Exception):
    """The webhook did not return a response with status 200; the message is that of kube-apiserver."""


def _parse_location(url: str) -> tuple[Location, str]:
    """Return the location of a URL's server, and the name that its certificate must have."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return Location(host=host, port=parts.port or _HTTPS, is_tls=True), host


def _make_head(url: str) -> bytes:
    """Return the request line and the headers of a review, except its length."""
    parts = URL(url)
    return f"POST {parts.raw_path_qs} HTTP/1.1\r\nHost: {parts.raw_authority}\r\n{_HEADERS}".encode()


_locations = BoundedCache(_parse_location, max_entries=1024)
_heads = BoundedCache(_make_head, max_entries=1024)


class WebhookClients:
    """Calls webhooks. It must be closed with `close()`."""

    def __init__(self, *, registry: Registry, kubelets: Kubelets) -> None:
        self._registry, self._kubelets = registry, kubelets
        self._connections: KeptConnections | None = None
        self._is_closed = False
        self._contexts: BoundedCache[bytes, ssl.SSLContext] = BoundedCache(
            _tls_context,
            max_entries=256,
            max_entry_bytes=512 << 10,
            max_bytes=32 << 20,
            measure=lambda context, limit: _CONTEXT_BYTES,
        )

    async def close(self) -> None:
        """Close all connections. Webhooks cannot be called any more."""
        self._is_closed = True
        if self._connections is not None:
            await self._connections.close()

    async def call(self, config: CallableWebhook, body: bytes, *, timeout_s: float) -> bytes:
        """Send a review and return the body of the response. Raise `WebhookFailed`."""
        url = _url_of(config, timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                location, server_name = await self._destination(config)
                return await self._post(url, location, server_name, self._contexts.use(config.caBundle), body)
        except TimeoutError:
            raise WebhookFailed(f'Post "{url}": context deadline exceeded') from None
        except errors.ApiError as error:
            raise WebhookFailed(f'Post "{url}": {error.message}') from None

    async def _destination(self, config: CallableWebhook) -> tuple[Location, str]:
        """Return the location of the webhook's server, and the name that its certificate must have."""
        service = config.service
        if service is not None:
            return await self._service_location(service), f"{service.name}.{service.namespace}.svc"
        return _locations[config.url or ""]

    async def _service_location(self, reference: WebhookService) -> Location:
        from sampan.apiserver.proxy.proxied import locate_service

        try:
            return await locate_service(
                self._registry,
                self._kubelets,
                namespace=reference.namespace,
                name=reference.name,
                port=reference.port or _HTTPS,
            )
        except errors.NotFound:
            raise errors.ApiError(f'service "{reference.name}" not found') from None

    async def _post(
        self, url: str, location: Location, server_name: str, context: ssl.SSLContext, body: bytes
    ) -> bytes:
        from sampan.apiserver.proxy.upstream import dial_error
        from sampan.apiserver.webhooks.connections import Destination, DialFailed, ExchangeFailed

        destination = Destination(location.host, location.port, server_name, context)
        request = b"%sContent-Length: %d\r\n\r\n%s" % (_heads[url], len(body), body)
        try:
            response = await self._open().post(destination, request)
        except DialFailed as error:
            raise WebhookFailed(f'Post "{url}": {dial_error(error.os_error, location)}') from None
        except ExchangeFailed as error:
            raise WebhookFailed(f'Post "{url}": {error}') from None
        if not response.is_success:
            text = response.body.decode("utf-8", "replace").strip()
            raise WebhookFailed(errors.generic(response.status, text, verb="POST", is_unexpected=True).message)
        return response.body

    def _open(self) -> KeptConnections:
        from sampan.apiserver.webhooks.connections import KeptConnections, ResponseLimits

        if self._is_closed:
            raise WebhookFailed("the server is shutting down")
        if self._connections is None:
            self._connections = KeptConnections(
                keep_s=_KEEP_S,
                connections_per_host=_CONNECTIONS_PER_HOST,
                limits=ResponseLimits(limits.WEBHOOK_RESPONSE_BYTES, _ERROR_TEXT_BYTES),
            )
        return self._connections


def _tls_context(bundle: bytes) -> ssl.SSLContext:
    try:
        context = verifying_context(bundle)
    except (ssl.SSLError, ValueError):
        raise WebhookFailed("unable to load root certificates: unable to parse bytes as PEM block") from None
    context.set_alpn_protocols(["http/1.1"])
    return context


def _url_of(config: CallableWebhook, timeout_s: float) -> str:
    """Return the URL of the webhook as error messages show it, with the timeout as parameter. Its path is normalized
    as in client-go: envtest registers webhooks with two slashes."""
    if (service := config.service) is not None:
        host, path = f"{service.name}.{service.namespace}.svc:{service.port or _HTTPS}", service.path or ""
    else:
        parts = urlsplit(config.url or "")
        host, path = parts.netloc, parts.path
    return f"https://{host}{posixpath.normpath('/' + path.lstrip('/'))}?timeout={timeout_s:g}s"


class WebhookService(Protocol):
    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str | None: ...
    @property
    def port(self) -> int | None: ...


class WebhookLocation(Protocol):
    """A URL or a service."""

    @property
    def url(self) -> str | None: ...
    @property
    def service(self) -> WebhookService | None: ...


class CallableWebhook(WebhookLocation, Protocol):
    """A location with the CA certificates that sign its certificate."""

    @property
    def caBundle(self) -> bytes: ...
