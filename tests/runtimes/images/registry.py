"""A fake registry that implements the distribution protocol."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from tests.runtimes.images.builders import MadeImage, digest


class FakeRegistry:
    """Serves images. It can require a token or a password, and can interrupt or pause responses."""

    def __init__(self, auth: str = "") -> None:
        self.auth, self.address = auth, ""
        self.documents: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.broken = 0
        self.may_finish = asyncio.Event()
        """While it is not set, half of each blob is sent."""
        self.may_finish.set()

    def add(self, name: str, tag: str, *images: MadeImage, index: bytes | None = None) -> None:
        for image in images:
            self.documents |= {f"/v2/{name}/blobs/{key}": data for key, data in image.blobs.items()}
            self.documents[f"/v2/{name}/manifests/{image.digest}"] = image.manifest
        top = index if index is not None else images[0].manifest
        self.documents[f"/v2/{name}/manifests/{tag}"] = self.documents[f"/v2/{name}/manifests/{digest(top)}"] = top

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(request.path)
        if request.path == "/token":
            authorization = request.headers.get("Authorization", "")
            is_known = authorization == "Basic " + base64.b64encode(b"may:secret").decode()
            return web.json_response({"token": f"{'may' if is_known else 'nobody'}-{request.query['scope']}"})
        if refusal := self._refusal(request):
            return refusal
        data = self.documents.get(request.path)
        if data is None:
            return web.json_response({"errors": [{"code": "MANIFEST_UNKNOWN", "message": "no such"}]}, status=404)
        if self.broken and "/blobs/" in request.path:
            self.broken -= 1
            response = web.StreamResponse(headers={"Content-Length": str(len(data))})
            await response.prepare(request)
            await response.write(data[: len(data) // 2])
            assert request.transport is not None
            request.transport.close()
            return response
        if not self.may_finish.is_set() and "/blobs/" in request.path:
            response = web.StreamResponse(headers={"Content-Length": str(len(data))})
            await response.prepare(request)
            await response.write(data[: len(data) // 2])
            await self.may_finish.wait()
            await response.write(data[len(data) // 2 :])
            return response
        return web.Response(body=data)

    def _refusal(self, request: web.BaseRequest) -> web.Response | None:
        authorization = request.headers.get("Authorization", "")
        if self.auth == "basic" and authorization != "Basic " + base64.b64encode(b"may:secret").decode():
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="here"'})
        if self.auth == "bearer" and authorization != "Bearer may-repository:team/app:pull":
            challenge = f'Bearer realm="http://{self.address}/token",service="here",scope="repository:team/app:pull"'
            return web.Response(status=401, headers={"WWW-Authenticate": challenge})
        return None


@asynccontextmanager
async def serving(registry: FakeRegistry) -> AsyncIterator[str]:
    runner = web.ServerRunner(web.Server(registry.respond), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    registry.address = f"127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield registry.address
    finally:
        await runner.cleanup()
