"""Checks of the origin of a request, before it is processed.

A browser attaches the session's cookie also to requests that a page of another site makes. A request must therefore
name one of the server's own hosts (against DNS rebinding), and must not come from another site. Any request but a read
must also repeat the session's CSRF token, which another origin cannot read.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from urllib.parse import urlsplit

from sampan.dashboard.sessions import LoginSession
from sampan.host.http import HttpRequest
from sampan.machinery import errors

CSRF_HEADER = "X-Sampan-Csrf"
CSRF_PROTOCOL = "sampan.csrf."
"""The prefix of the WebSocket subprotocol that contains the CSRF token: a page cannot set headers of a WebSocket."""
_SAFE_METHODS = ("GET", "HEAD")
_ALLOWED_FETCH_SITES = ("none", "same-origin")

IsOwnHost = Callable[[str], bool]


def is_loopback_host(host: str) -> bool:
    """Whether a host name or address in a Host header can only be this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_address_or_localhost(host: str) -> bool:
    """Whether a host is an IP address or localhost. DNS cannot rebind these to another machine."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return True


def host_of(request: HttpRequest) -> str:
    """Return the host in the Host header, without the port."""
    try:
        return (urlsplit(f"//{request.headers.get('Host', '')}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def check_host(request: HttpRequest, is_own_host: IsOwnHost) -> None:
    if not is_own_host(host_of(request)):
        raise forbidden("the Host header names a host that this server does not have")


def check_origin(request: HttpRequest) -> None:
    """Reject a request that a page of another origin makes. Browsers send the Origin header with every request except
    simple reads, and Sec-Fetch-Site with all requests."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None and site not in _ALLOWED_FETCH_SITES:
        raise forbidden("the request comes from another site")
    origin = request.headers.get("Origin")
    if origin is None:
        if request.method in _SAFE_METHODS and not is_websocket(request):
            return
        raise forbidden("the request has no Origin header")
    if origin != f"{request.scheme}://{request.headers.get('Host', '')}":
        raise forbidden("the request comes from another origin")


def check_csrf_token(request: HttpRequest, session: LoginSession) -> None:
    if is_websocket(request):
        words = websocket_protocols(request)
        token = next((word[len(CSRF_PROTOCOL) :] for word in words if word.startswith(CSRF_PROTOCOL)), "")
    elif request.method in _SAFE_METHODS:
        return
    else:
        token = request.headers.get(CSRF_HEADER, "")
    if not session.has_csrf_token(token):
        raise forbidden("the CSRF token is missing or wrong")


def is_websocket(request: HttpRequest) -> bool:
    return request.headers.get("Upgrade", "").lower() == "websocket"


def websocket_protocols(request: HttpRequest) -> list[str]:
    values = request.values("Sec-WebSocket-Protocol")
    return [word.strip() for value in values for word in value.split(",") if word.strip()]


def forbidden(reason: str) -> errors.ApiError:
    return errors.ApiError(reason, code=403, reason="Forbidden")


_JSON = "application/json"


async def read_json_body(request: HttpRequest, limit: int) -> bytes:
    """Return the body of a POST request with JSON. Other media types are rejected, because a form of another site can
    send some of them without a CORS preflight."""
    if request.method != "POST":
        raise errors.generic(405)
    media_type = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media_type != _JSON:
        raise errors.unsupported_media_type([_JSON])
    body = bytearray()
    request.send_continue()
    async for piece in request.body.pieces():
        body += piece
        if len(body) > limit:
            raise errors.request_entity_too_large(f"limit is {limit}")
    return bytes(body)
