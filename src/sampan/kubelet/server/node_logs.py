"""The /logs/ endpoint: files of the node's log directory."""

from __future__ import annotations

import html
from pathlib import Path
from urllib.parse import quote

from aiohttp import web

from sampan.kubelet.server.view import Refusal


def node_log(directory: Path, rest: str, request: web.BaseRequest) -> web.StreamResponse:
    """Return a file or a directory listing. Neither the path nor a symbolic link can leave the directory."""
    root = directory.resolve()
    path = (root / rest.lstrip("/")).resolve()
    if not path.is_relative_to(root):
        raise Refusal(404, "404 page not found\n")
    if path.is_dir():
        if not request.path.endswith("/"):
            return web.Response(status=301, headers={"Location": f"{request.path}/"})
        return web.Response(text=_listing(path), content_type="text/html")
    if not path.is_file():
        raise Refusal(404, "404 page not found\n")
    return web.FileResponse(path, headers={"Content-Type": "text/plain; charset=utf-8"})


def _listing(directory: Path) -> str:
    names = sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in directory.iterdir())
    links = (f'<a href="{quote(name)}">{html.escape(name)}</a>\n' for name in names)
    return f'<!doctype html>\n<meta name="viewport" content="width=device-width">\n<pre>\n{"".join(links)}</pre>\n'
