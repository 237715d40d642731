"""A service outside the cluster, over HTTPS with the test library's certificates."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from sampan.cluster.pki import ADMIN, CA, SERVER, Pki
from sampan.machinery.client.access import Access
from sampan.testing.keys import KEYS

Answering = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass
class Outside:
    pki: Pki
    port: int

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca(self) -> bytes:
        return self.pki.certificate(CA).read_bytes()

    def access(self, path: str = "/review") -> Access:
        """As a client with a certificate of its own."""
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
async def outside(directory: Path, response: Answering, *, wants_certificate: bool = True) -> AsyncIterator[Outside]:
    """The service answers by `answer` until the block is left."""
    pki = KEYS.write(directory / "outside")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki.certificate(SERVER), pki.key(SERVER))
    if wants_certificate:
        context.load_verify_locations(pki.certificate(CA))
        context.verify_mode = ssl.CERT_REQUIRED
    runner = web.ServerRunner(web.Server(response), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    try:
        yield Outside(pki, runner.addresses[0][1])
    finally:
        await runner.cleanup()
