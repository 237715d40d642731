"""The health endpoints: a path of the main port, and a port of its own for monitoring on the machine."""

from __future__ import annotations

from aiohttp import web

from sampan.kubelet.server.view import KubeletView, Refusal

_SYNC_LOOP = "syncloop"
_CHECKS = ("ping", "log", _SYNC_LOOP)


def healthz(view: KubeletView, check: str, request: web.BaseRequest) -> web.Response:
    """Run the named check, or all checks if the name is empty."""
    if check and check not in _CHECKS:
        raise Refusal(404, "404 page not found\n")
    problem = view.fault() if check in ("", _SYNC_LOOP) else ""
    status = 500 if problem else 200
    if check:
        return web.Response(status=status, text=f"internal server error: {problem}\n" if problem else "ok")
    if not problem and "verbose" not in request.query:
        return web.Response(text="ok")
    last = f"[-]{_SYNC_LOOP} failed: reason withheld" if problem else f"[+]{_SYNC_LOOP} ok"
    end = "healthz check failed" if problem else "healthz check passed"
    return web.Response(status=status, text=f"[+]ping ok\n[+]log ok\n{last}\n{end}\n")


class HealthPort:
    """The healthz port 10248: plain HTTP without authentication, and nothing but /healthz."""

    def __init__(self, *, view: KubeletView) -> None:
        self._view = view

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        first, _, check = request.path.strip("/").partition("/")
        try:
            if first != "healthz" or request.method not in ("GET", "HEAD"):
                raise Refusal(404, "404 page not found\n")
            return healthz(self._view, check, request)
        except Refusal as refusal:
            return web.Response(status=refusal.code, text=refusal.text)
