"""The files of the built page: encodings, caching, and a page that is not built."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from sampan.dashboard.static_files import StaticFiles
from sampan.host.http import HttpRequest, StreamResponse, serve_http


@asynccontextmanager
async def serve(directory: Path) -> AsyncIterator[str]:
    """Serve the files of a directory below /ui/, and return the URL of the server."""
    files = StaticFiles(directory)

    async def handle(request: HttpRequest) -> StreamResponse | None:
        return files.respond(request, request.path.removeprefix("/ui/"))

    async with serve_http(handle, address=("127.0.0.1", 0)) as port:
        yield f"http://127.0.0.1:{port}"


async def test_missing_build_gets_503_with_build_instructions_until_the_page_is_built(tmp_path: Path) -> None:
    async with serve(tmp_path) as url, aiohttp.ClientSession() as session:
        for path in ("/ui/", "/ui/assets/a-1.js", "/ui/c/sampan/overview"):
            async with session.get(url + path) as response:
                assert (response.status, "make dashboard" in await response.text()) == (503, True)
                assert "default-src 'none'" in response.headers["Content-Security-Policy"]
        (tmp_path / "index.html").write_bytes(b"page")
        async with session.get(f"{url}/ui/") as response:
            assert (response.status, await response.text()) == (200, "page")
            assert "default-src 'none'" in response.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("accepted", "encoding", "content"),
    [
        ("gzip, deflate, br", "br", b"brotli"),
        ("gzip", "gzip", b"gzip"),
        ("br;q=0, gzip;q=0.5", "gzip", b"gzip"),
        ("BR", "br", b"brotli"),
        ("identity", None, b"plain"),
        ("", None, b"plain"),
        ("zstd", None, b"plain"),
    ],
)
async def test_static_files_are_sent_in_an_accepted_encoding(
    tmp_path: Path, accepted: str, encoding: str | None, content: bytes
) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_bytes(b"plain")
    for suffix, compressed in (("", b"plain"), (".gz", b"gzip"), (".br", b"brotli")):
        (tmp_path / f"assets/a-1.js{suffix}").write_bytes(compressed)
    async with serve(tmp_path) as url, aiohttp.ClientSession(auto_decompress=False) as session:
        async with session.get(f"{url}/ui/assets/a-1.js", headers={"Accept-Encoding": accepted}) as response:
            assert (await response.read(), response.headers.get("Content-Encoding")) == (content, encoding)
            assert response.headers["Content-Type"].startswith("text/javascript")
            assert response.headers["Vary"] == "Accept-Encoding"
            assert "immutable" in response.headers["Cache-Control"]
            headers = {"Accept-Encoding": accepted, "If-None-Match": response.headers["ETag"]}
        async with session.get(f"{url}/ui/assets/a-1.js", headers=headers) as response:
            assert (response.status, await response.read()) == (304, b"")
        async with session.get(f"{url}/ui/c/sampan/overview") as response:
            assert (response.status, response.headers["Cache-Control"]) == (200, "no-cache")
