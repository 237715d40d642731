"""Keep pages of pods and services apart from the dashboard, which has the same origin in a browser: what the API server
forwards has no session cookies in either direction, and pages cannot act as pages of this origin."""

from __future__ import annotations

from collections.abc import Mapping

from multidict import CIMultiDict

from sampan.machinery.http.session_cookies import is_session_cookie

_SANDBOX = "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts"
"""A policy with which a browser gives a page an origin of its own."""


def remove_session_cookies(headers: CIMultiDict[str]) -> None:
    """Remove the cookies of dashboards from the headers of a request, and leave the others as they are."""
    for value in headers.popall("Cookie", []):
        pairs = [pair for pair in value.split(";") if not is_session_cookie(pair.partition("=")[0].strip())]
        if text := ";".join(pairs).strip():
            headers.add("Cookie", text)


def remove_origin_rights(headers: CIMultiDict[str]) -> None:
    """Remove the headers of a response that would set cookies of dashboards, or change what a script may control."""
    cookies = headers.popall("Set-Cookie", [])
    headers.extend(("Set-Cookie", value) for value in cookies if not is_session_cookie(value.partition("=")[0].strip()))
    headers.popall("Service-Worker-Allowed", None)


def isolate_page(request_headers: Mapping[str, str], headers: CIMultiDict[str]) -> None:
    """Give the response an origin of its own if a browser may show it as a page of this server. Behind another proxy,
    such as `kubectl proxy`, the origin is that of the proxy."""
    if "X-Forwarded-For" not in request_headers:
        headers.add("Content-Security-Policy", _SANDBOX)
