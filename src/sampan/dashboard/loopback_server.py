"""The dashboard on a loopback port over plain HTTP, for clusters of a kubeconfig.

Plain HTTP on the loopback address spares a certificate that browsers do not trust. The port is open to every user of
the machine and to every page in the browser; so requests need a Host header that names the loopback address and port,
which a page of another origin cannot send by DNS rebinding, and a session.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from sampan.dashboard.http_api import HttpApiSource
from sampan.dashboard.request_checks import is_loopback_host
from sampan.dashboard.sessions import OneTimeCodes
from sampan.dashboard.site import DashboardSite, cookie_of_port
from sampan.dashboard.static_files import StaticFiles
from sampan.dashboard.views.view_table import cluster_views, special_subscriptions
from sampan.host.clock import Clock
from sampan.host.http import serve_http
from sampan.machinery.client.access import Access

HOST = "127.0.0.1"


@asynccontextmanager
async def loopback_dashboard(clusters: Mapping[str, Access], *, port: int, clock: Clock) -> AsyncIterator[str]:
    """Serve the dashboard for the duration of the block; yield a URL that logs in once, with the credentials of the
    kubeconfig."""
    sources = {name: HttpApiSource(access) for name, access in clusters.items()}
    codes = OneTimeCodes(clock=clock)
    site = DashboardSite(
        clusters=sources,
        clock=clock,
        is_own_host=is_loopback_host,
        cookie_name=cookie_of_port,
        codes=codes,
        views=cluster_views(),
        subscriptions=special_subscriptions(),
        files=StaticFiles(),
    )
    async with serve_http(site.serve, address=(HOST, port)) as actual_port:
        try:
            code = codes.issue({name: source.with_own_credentials() for name, source in sources.items()})
            yield login_url(f"http://{HOST}:{actual_port}", code)
        finally:
            await site.close()


def login_url(server: str, code: str) -> str:
    """Return the address of the log-in page with a code. The code is in the fragment, which browsers do not send."""
    return f"{server}/ui/login#code={code}"
