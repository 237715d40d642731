"""The HTTP port of a component: health checks without authentication, metrics with delegated authorization."""

from __future__ import annotations

import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from sampan.api.types.authentication_v1 import UserInfo
from sampan.host.http import HttpRequest, HttpResponse, serve_http
from sampan.machinery import errors
from sampan.machinery.client import ConnectionFailed
from sampan.machinery.http.delegation import ANONYMOUS, DelegatedAuth
from sampan.machinery.pki.server_tls import ServerTlsSettings, server_context
from sampan.machinery.telemetry.health import RESET_TEXT, HealthCheck, HealthMetrics, HealthPath
from sampan.machinery.telemetry.metrics import CONTENT_TYPE, Metrics

_HEALTH = ("/healthz", "/readyz", "/livez")
OPEN_PATHS = tuple(path for check in _HEALTH for path in (check, f"{check}/*"))
"""Paths that need no authentication and authorization by default. A path that ends with * stands for all paths with
that prefix."""

Page = Callable[[str, str, Mapping[str, str], bytes], Awaitable[HttpResponse]]
"""A handler for a method, path, query and body."""

_MAX_BODY_BYTES = 1 << 20


class ComponentPort:
    def __init__(
        self,
        *,
        metrics: Metrics,
        delegation: DelegatedAuth | None,
        health: Mapping[str, Callable[[], Sequence[HealthCheck]]],
        config: Mapping[str, object],
        pages: Mapping[str, Page] | None = None,
        open_paths: Sequence[str] = OPEN_PATHS,
    ) -> None:
        """Serve the paths of a component. If `delegation` is None, everything is accessible without authorization.
        `health` has the checks of each health path, such as healthz, at the time of a request.
        `pages` are additional handlers by path, to which more may be added at any time."""
        self._metrics, self._delegation, self._config = metrics, delegation, config
        self._slis = HealthMetrics()
        self._health = {path: HealthPath(path, checks, metrics=self._slis) for path, checks in health.items()}
        self._open_paths = frozenset(path for path in open_paths if not path.endswith("*"))
        self._open_prefixes = tuple(path[:-1] for path in open_paths if path.endswith("*"))
        self._pages = pages if pages is not None else {}

    async def response(self, request: HttpRequest) -> HttpResponse:
        path = request.path
        if not (path in self._open_paths or path.startswith(self._open_prefixes)):
            refusal = await self._refusal(request)
            if refusal is not None:
                return refusal
        if path in self._pages and request.method in ("GET", "POST"):
            return await self._pages[path](request.method, path, request.query, await request.read(_MAX_BODY_BYTES))
        if path == "/metrics/slis" and request.method == "DELETE":
            self._slis.reset()
            return HttpResponse(text=RESET_TEXT)
        if request.method not in ("GET", "HEAD"):
            return HttpResponse(status=405, text="405 method not allowed\n")
        return await self._health_page(request) or self._standard_page(path)

    async def _health_page(self, request: HttpRequest) -> HttpResponse | None:
        first, slash, check = request.path[1:].partition("/")
        if first not in self._health or (slash and not check):
            return None
        excluded = set(request.query.getall("exclude", ()))
        response = await self._health[first].run(check, excluded=excluded, is_verbose="verbose" in request.query)
        return HttpResponse(status=response.code, text=response.text) if response is not None else None

    def _standard_page(self, path: str) -> HttpResponse:
        if path == "/metrics":
            return HttpResponse(body=self._metrics.text().encode(), headers={"Content-Type": CONTENT_TYPE})
        if path == "/configz":
            return HttpResponse(body=msgspec.json.encode(self._config), content_type="application/json")
        if path == "/metrics/slis":
            return HttpResponse(body=self._slis.text().encode(), headers={"Content-Type": CONTENT_TYPE})
        return HttpResponse(status=404, text="404 page not found\n")

    async def _refusal(self, request: HttpRequest) -> HttpResponse | None:
        if self._delegation is None:
            return None
        try:
            user = await self._user(request, self._delegation)
            if user is None:
                return HttpResponse(status=401, text="Unauthorized\n")
            verb = request.method.lower()
            decision = await self._delegation.may_get(user, verb, request.path)
        except (errors.ApiError, ConnectionFailed) as failure:
            return HttpResponse(status=500, text=f"cannot reach the API server: {failure}\n")
        if decision.is_allowed:
            return None
        message = f'forbidden: User "{user.username}" cannot {verb} path "{request.path}"'
        return HttpResponse(status=403, text=f"{message}: {decision.reason}\n" if decision.reason else f"{message}\n")

    async def _user(self, request: HttpRequest, delegation: DelegatedAuth) -> UserInfo | None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        return await delegation.user_of(token.strip()) if scheme.lower() == "bearer" else ANONYMOUS


@asynccontextmanager
async def serve_port(port: ComponentPort, *, host: str, number: int, tls: ssl.SSLContext | None) -> AsyncIterator[int]:
    """Serve a component's port for the duration of the `async with` block. The context manager yields the actual port
    number."""
    async with serve_http(port.response, address=(host, number), tls=tls) as actual_number:
        yield actual_number


def tls_of(
    certificate: Path | None, key: Path | None, *, name: str, settings: ServerTlsSettings | None = None
) -> ssl.SSLContext:
    """Return a TLS context with the certificate and key in these files, or with a self-signed certificate generated for
    this process."""
    context = server_context(settings)
    if certificate is not None and key is not None:
        context.load_cert_chain(certificate, key)
        return context
    from sampan.machinery.pki import certificates

    now = time.time()
    ca = certificates.make_ca(f"{name}-ca", now=now)
    request = certificates.SigningRequest(
        common_name=name, dns_names=("localhost", name), addresses=("127.0.0.1",), is_server=True
    )
    pair = certificates.issue(ca, request, now=now)
    with tempfile.TemporaryDirectory(prefix="sampan-port-") as directory:
        file = Path(directory) / "both.pem"
        file.touch(mode=0o600)
        file.write_bytes(pair.certificate + pair.key)
        context.load_cert_chain(file)
    return context
