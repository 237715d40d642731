"""Forward Kubernetes requests of the page to the API server with the rights of the person."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

from multidict import CIMultiDict

from sampan.dashboard.request_checks import CSRF_PROTOCOL, forbidden, websocket_protocols
from sampan.dashboard.responses import prepare_passed_response
from sampan.host.http import HttpRequest, StreamResponse
from sampan.machinery import errors
from sampan.machinery.client.user_api import UserApi

_PASSED_HEADERS = (
    *("Accept", "Accept-Encoding", "Content-Type", "Content-Length", "Transfer-Encoding", "If-Match", "If-None-Match"),
    *("Connection", "Upgrade", "Sec-WebSocket-Key", "Sec-WebSocket-Version", "User-Agent", "Host"),
)
"""Headers of the client that are forwarded to the API server. Credentials, cookies, impersonation headers and the user
headers of a front proxy are excluded."""
_PROTOCOLS = "Sec-WebSocket-Protocol"
_BEARER = "base64url.bearer.authorization.k8s.io."
"""The prefix of a WebSocket subprotocol that carries a bearer token. It is not forwarded: only the credentials of the
session count."""


async def pass_through(request: HttpRequest, api: UserApi, raw_path: str) -> StreamResponse | None:
    """Forward a request to a Kubernetes path of a cluster. `raw_path` is still percent-encoded."""
    check_path(raw_path)
    query = request.raw_query
    return await api.forward(
        request,
        target=f"{raw_path}?{query}" if query else raw_path,
        headers=_headers(request),
        prepare=prepare_passed_response,
    )


def check_path(raw_path: str) -> None:
    """Reject paths that are not canonical, and proxy paths. The content that a pod, service or node serves would run as
    a page of this origin, with access to the session."""
    path = unquote(raw_path)
    segments = path.split("/")[1:]
    is_canonical = path.startswith("/") and all(segment not in ("", ".", "..") for segment in segments[:-1])
    if not is_canonical or segments[-1] in (".", "..") or "%2f" in raw_path.lower() or "\\" in path:
        raise errors.bad_request("the path of the Kubernetes request is not canonical")
    if is_proxy(segments):
        raise forbidden(
            "the dashboard does not show pages of pods, services and nodes; use kubectl proxy or kubectl port-forward"
        )


def is_proxy(segments: Sequence[str]) -> bool:
    """Whether a path, given as its segments, is a proxy path: /api/v1/nodes/NAME/proxy,
    /api/v1/namespaces/NS/pods/NAME/proxy or the deprecated /api/v1/proxy."""
    if list(segments[:2]) != ["api", "v1"]:
        return False
    remainder = list(segments[2:])
    is_cluster_scoped = remainder[:1] != ["namespaces"]
    return (
        remainder[:1] == ["proxy"] or (is_cluster_scoped and remainder[2:3] == ["proxy"]) or remainder[4:5] == ["proxy"]
    )


def _headers(request: HttpRequest) -> CIMultiDict[str]:
    headers = CIMultiDict((name, value) for name in _PASSED_HEADERS for value in request.values(name))
    protocols = [word for word in websocket_protocols(request) if not word.startswith((CSRF_PROTOCOL, _BEARER))]
    if protocols:
        headers[_PROTOCOLS] = ", ".join(protocols)
    return headers
