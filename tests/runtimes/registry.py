"""A registry in a thread, which responds to engines in other processes while a test waits for them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.runtimes.images.builders import MadeImage, digest

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@contextmanager
def serving(image: MadeImage, name: str, tag: str) -> Iterator[str]:
    """Serve an image, and yield the address of the registry."""
    documents = {f"/v2/{name}/blobs/{key}": data for key, data in image.blobs.items()}
    documents |= {f"/v2/{name}/manifests/{key}": image.manifest for key in (tag, image.digest)}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._respond(has_body=True)

        def do_HEAD(self) -> None:
            self._respond(has_body=False)

        def _respond(self, *, has_body: bool) -> None:
            data = b"{}" if self.path == "/v2/" else documents.get(self.path)
            self.send_response(404 if data is None else 200)
            if data is not None and "/manifests/" in self.path:
                self.send_header("Docker-Content-Digest", digest(data))
            self.send_header("Content-Type", _MANIFEST if "/manifests/" in self.path else "application/octet-stream")
            self.send_header("Content-Length", str(len(data or b"")))
            self.end_headers()
            if has_body and data:
                self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


__all__ = ["serving"]
