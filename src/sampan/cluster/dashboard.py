"""Serves the dashboard on the secure port of an API server in this process."""

from __future__ import annotations

from pathlib import Path

from sampan.apiserver.server import ApiServer
from sampan.dashboard.request_checks import is_address_or_localhost
from sampan.dashboard.sessions import OneTimeCodes
from sampan.dashboard.site import PREFIX, DashboardSite, cookie_of_port
from sampan.dashboard.static_files import StaticFiles
from sampan.dashboard.views.table import cluster_views, special_subscriptions
from sampan.machinery.clock import RealClock

CLUSTER = "sampan"
"""The name of the cluster in paths of its own dashboard."""


def serve_dashboard(server: ApiServer) -> None:
    clock = RealClock()
    tls = server.config.tls
    names = CertificateNames(tls.certificate) if tls is not None else None
    site = DashboardSite(
        clusters={CLUSTER: server.user_api_source()},
        clock=clock,
        is_own_host=lambda host: is_address_or_localhost(host) or (names is not None and host in names),
        cookie_name=cookie_of_port,
        codes=OneTimeCodes(clock=clock),
        views=cluster_views(),
        subscriptions=special_subscriptions(),
        files=StaticFiles(),
    )
    server.serve_site(PREFIX, site)


class CertificateNames:
    """The DNS names in the serving certificate, which is read again when it was renewed."""

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
            pass  # a deleted file: the names that were read before count
        return host in self._names
