"""A read-only image registry on a loopback port (the pull half of the OCI distribution specification)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.conformance.images import MANIFEST_TYPE, Image


@contextmanager
def serve(images: list[Image], blobs: Path) -> Iterator[str]:
    """Serves the images from a thread of its own; the value is the address HOST:PORT."""
    loop, started = asyncio.new_event_loop(), threading.Event()
    address: list[str] = []

    async def start() -> web.AppRunner:
        app = web.Application()
        app.add_routes([web.get("/v2/", _ping), web.get("/v2/{path:.+}", _Contents(images, blobs).get)])
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        address.append(f"127.0.0.1:{runner.addresses[0][1]}")
        return runner

    def work() -> None:
        runner = loop.run_until_complete(start())
        started.set()
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=work, name="registry", daemon=True)
    thread.start()
    started.wait()
    try:
        yield address[0]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


async def _ping(request: web.Request) -> web.Response:
    return web.json_response({})


class _Contents:
    def __init__(self, images: list[Image], blobs: Path) -> None:
        self._manifests = {f"{image.repository}:{image.tag}": image.manifest for image in images}
        self._manifests |= {f"{image.repository}@{image.digest}": image.manifest for image in images}
        self._blobs = blobs

    async def get(self, request: web.Request) -> web.StreamResponse:
        parts = request.match_info["path"].split("/")
        if len(parts) < 3:
            return _not_found_response("NAME_UNKNOWN", "")
        repository, kind, reference = "/".join(parts[:-2]), parts[-2], parts[-1]
        if kind == "manifests":
            return self._manifest(repository, reference)
        path = self._blobs / reference.replace(":", "-")
        if kind != "blobs" or not path.is_file():
            return _not_found_response("BLOB_UNKNOWN", reference)
        return web.FileResponse(path, headers={"Content-Type": "application/octet-stream"})

    def _manifest(self, repository: str, reference: str) -> web.Response:
        separator = "@" if reference.startswith("sha256:") else ":"
        body = self._manifests.get(f"{repository}{separator}{reference}")
        if body is None:
            return _not_found_response("MANIFEST_UNKNOWN", reference)
        digest = "sha256:" + hashlib.sha256(body).hexdigest()
        return web.Response(body=body, content_type=MANIFEST_TYPE, headers={"Docker-Content-Digest": digest})


def _not_found_response(code: str, detail: str) -> web.Response:
    body: dict[str, Any] = {"errors": [{"code": code, "message": "not found", "detail": detail}]}
    return web.Response(status=404, text=json.dumps(body), content_type="application/json")
