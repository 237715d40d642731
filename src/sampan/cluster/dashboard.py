"""Serves the dashboard on the secure port of an API server in this process.

Its code is loaded with the first request, in a thread: a cluster starts without it, and most clusters of tests never
need it.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from sampan.apiserver.server import ApiServer
from sampan.cluster.cluster_config import DashboardConfig
from sampan.host.clock import RealClock
from sampan.host.http import HttpRequest, StreamResponse

if TYPE_CHECKING:
    from sampan.dashboard.site import DashboardSite

_PREFIX = "ui"


def serve_dashboard(server: ApiServer, config: DashboardConfig) -> None:
    server.serve_site(_PREFIX, DashboardOnDemand(server, config))


class DashboardOnDemand:
    """Serves the dashboard, which is created with the first request."""

    def __init__(self, server: ApiServer, config: DashboardConfig) -> None:
        self._server, self._config = server, config
        self._site: DashboardSite | None = None

    async def serve(self, request: HttpRequest) -> StreamResponse | None:
        if self._site is None:
            await asyncio.to_thread(import_module, "sampan.dashboard.views.view_table")
        if self._site is None:  # another request may have created it in the meantime
            self._site = _make_site(self._server, self._config)
        return await self._site.serve(request)

    async def close(self) -> None:
        if self._site is not None:
            await self._site.close()


def _make_site(server: ApiServer, config: DashboardConfig) -> DashboardSite:
    from sampan.dashboard.request_checks import is_address_or_localhost
    from sampan.dashboard.session_file import SessionFile
    from sampan.dashboard.sessions import OneTimeCodes
    from sampan.dashboard.site import DashboardSite, cookie_of_port
    from sampan.dashboard.static_files import StaticFiles
    from sampan.dashboard.views.view_table import cluster_views, special_subscriptions

    clock, tls = RealClock(), server.config.tls
    names = CertificateNames(tls.certificate) if tls is not None else None
    source, name, path = server.user_api_source(), config.cluster_name, config.sessions
    return DashboardSite(
        clusters={name: source},
        archive=SessionFile(path, cluster=name, source=source, clock=clock) if path is not None else None,
        clock=clock,
        is_own_host=lambda host: is_address_or_localhost(host) or (names is not None and host in names),
        cookie_name=cookie_of_port,
        codes=OneTimeCodes(clock=clock),
        views=cluster_views(),
        subscriptions=special_subscriptions(),
        files=StaticFiles(),
    )


class CertificateNames:
    """The DNS names in the serving certificate. The file is read again after it was renewed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._modified_ns = 0
        self._names: frozenset[str] = frozenset()

    def __contains__(self, host: str) -> bool:
        from cryptography import x509

        try:
            if (modified_ns := self._path.stat().st_mtime_ns) != self._modified_ns:
                certificate = x509.load_pem_x509_certificate(self._path.read_bytes())
                extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
                self._names = frozenset(extension.value.get_values_for_type(x509.DNSName))
                self._modified_ns = modified_ns
        except (OSError, ValueError, x509.ExtensionNotFound):
            pass  # an unreadable file: the names that were read before stay valid
        return host in self._names
