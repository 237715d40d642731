"""An HTTPS endpoint outside the cluster, with the certificates of the test library."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from sampan.cluster.pki import ADMIN, CA, SERVER, Pki
from sampan.machinery.client.access import Access
from sampan.testing.keys import KEYS

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass
class HttpsEndpoint:
    pki: Pki
    port: int

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca(self) -> bytes:
        return self.pki.certificate(CA).read_bytes()

    def access(self, path: str = "/review") -> Access:
        """Return the access of a client with a certificate."""
        return Access(
            server=self.url + path,
            ca_pem=self.ca,
            client_cert_pem=self.pki.certificate(ADMIN).read_bytes(),
            client_key_pem=self.pki.key(ADMIN).read_bytes(),
        )

    def kubeconfig(self, path: str = "/review") -> Path:
        file = self.pki.directory / "service.yaml"
        ca, certificate, key = self.pki.certificate(CA), self.pki.certificate(ADMIN), self.pki.key(ADMIN)
        file.write_text(
            "{current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], "
            f"clusters: [{{name: c, cluster: {{server: '{self.url}{path}', certificate-authority: '{ca}'}}}}], "
            f"users: [{{name: u, user: {{client-certificate: '{certificate}', client-key: '{key}'}}}}]}}"
        )
        return file


@asynccontextmanager
async def https_endpoint(
    directory: Path, handler: Handler, *, wants_certificate: bool = True
) -> AsyncIterator[HttpsEndpoint]:
    """Serve requests with `handler` until the block is left."""
    pki = KEYS.write(directory / "https-endpoint")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki.certificate(SERVER), pki.key(SERVER))
    if wants_certificate:
        context.load_verify_locations(pki.certificate(CA))
        context.verify_mode = ssl.CERT_REQUIRED
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    try:
        yield HttpsEndpoint(pki, runner.addresses[0][1])
    finally:
        await runner.cleanup()
