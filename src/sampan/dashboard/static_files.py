"""The files of the built page, with precompressed variants beside them (`app.js`, `app.js.br`, `app.js.gz`)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from sampan.dashboard.responses import SECURITY_HEADERS, text_response
from sampan.host.http import HttpRequest, HttpResponse, StreamResponse

BUILT_PAGE = Path(__file__).parent / "static"
NOT_BUILT = "the page of the dashboard is not built: `make dashboard` builds it in a source tree, and wheels contain it"
_INDEX = "index.html"
_ENCODINGS = (("br", ".br"), ("gzip", ".gz"))
"""Content codings with the suffixes of their files, in the order of preference."""
_CONTENT_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}


@dataclass(frozen=True, slots=True)
class _StaticFile:
    content: bytes
    etag: str
    encoding: str


class StaticFiles:
    """Serves the files of a directory. Only files that a listing of the directory names are served, so that no path
    leads out of it. The listing is renewed when the page is built again."""

    def __init__(self, directory: Path = BUILT_PAGE) -> None:
        self._directory = directory
        self._build = 0
        self._names: frozenset[str] = frozenset()
        self._files: dict[str, _StaticFile] = {}

    def respond(self, request: HttpRequest, path: str) -> StreamResponse | None:
        """Respond with the file at a path below /ui/. If there is no such file, respond with the page itself, because
        each view of the page has a path of its own."""
        if request.method not in ("GET", "HEAD"):
            return text_response("405 method not allowed\n", code=405)
        if not self._load_build():
            return text_response(f"{NOT_BUILT}\n", code=503)
        is_asset = path.startswith("assets/")
        if is_asset and path not in self._names:
            return text_response("404 page not found\n", code=404)
        name = path if path in self._names and not path.endswith((".br", ".gz")) else _INDEX
        file = self._file(name, request.headers.get("Accept-Encoding", ""))
        headers = {
            **SECURITY_HEADERS,
            "ETag": file.etag,
            "Vary": "Accept-Encoding",
            "Cache-Control": "public, max-age=31536000, immutable" if is_asset else "no-cache",
        }
        if file.etag in [tag.strip() for tag in request.headers.get("If-None-Match", "").split(",")]:
            return HttpResponse(status=304, headers=headers)
        headers["Content-Type"] = _CONTENT_TYPES.get(Path(name).suffix, "application/octet-stream")
        if file.encoding:
            headers["Content-Encoding"] = file.encoding
        return HttpResponse(body=file.content, headers=headers)

    def has_page(self) -> bool:
        """Whether the page is built."""
        return (self._directory / _INDEX).is_file()

    def _load_build(self) -> bool:
        """Read the names of the files if the page was built since. Return False if it has not been built."""
        try:
            build = (self._directory / _INDEX).stat().st_mtime_ns
        except OSError:
            return False
        if build != self._build:
            paths = [path for path in self._directory.rglob("*") if path.is_file() and not path.is_symlink()]
            self._names = frozenset(str(path.relative_to(self._directory)) for path in paths)
            self._files, self._build = {}, build
        return True

    def _file(self, name: str, accepted: str) -> _StaticFile:
        codings = _parse_accept_encoding(accepted)
        encoding, suffix = next(
            ((coding, suffix) for coding, suffix in _ENCODINGS if coding in codings and name + suffix in self._names),
            ("", ""),
        )
        file = self._files.get(name + suffix)
        if file is None:
            content = (self._directory / (name + suffix)).read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            file = self._files[name + suffix] = _StaticFile(content, etag, encoding)
        return file


def _parse_accept_encoding(accepted: str) -> set[str]:
    """Return the codings of an Accept-Encoding header; a weight of zero refuses one."""
    codings = set()
    for word in accepted.split(","):
        coding, _, weight = word.replace(" ", "").lower().partition(";q=")
        if weight.strip("0.") or not weight:
            codings.add(coding)
    return codings
