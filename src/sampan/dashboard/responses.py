"""Responses with the headers that every response of the dashboard has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sampan.api.codec import json as json_codec
from sampan.host.http import HttpResponse, StreamResponse
from sampan.machinery import errors

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_JSON = "application/json"
_TEXT_CONTENT_TYPE = "text/plain; charset=utf-8"
_PASSED_MEDIA_TYPES = frozenset(
    {
        _JSON,
        "application/yaml",
        "application/x-ndjson",
        "application/vnd.kubernetes.protobuf",
        "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
        "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
        "text/plain",
    }
)
_PASSED_HEADERS = frozenset(
    {
        *("content-type", "content-length", "content-encoding", "transfer-encoding", "connection", "date"),
        *("upgrade", "sec-websocket-accept", "sec-websocket-protocol", "sec-websocket-extensions"),
        *("retry-after", "warning", "allow", "audit-id", "etag"),
        *("x-kubernetes-pf-flowschema-uid", "x-kubernetes-pf-prioritylevel-uid"),
    }
)


def json_response(value: Any, *, code: int = 200) -> HttpResponse:
    return bytes_response(json_codec.encode(value), code=code)


def bytes_response(body: bytes, *, content_type: str = _JSON, code: int = 200) -> HttpResponse:
    headers = {**SECURITY_HEADERS, "Cache-Control": "no-store", "Content-Type": content_type}
    return HttpResponse(body=body, status=code, headers=headers)


def text_response(text: str, *, code: int) -> HttpResponse:
    return bytes_response(text.encode(), content_type=_TEXT_CONTENT_TYPE, code=code)


def error_response(error: errors.ApiError) -> HttpResponse:
    response = json_response(error.status, code=error.code)
    if error.retry_after_s:
        response.headers["Retry-After"] = str(error.retry_after_s)
    return response


def prepare_passed_response(response: StreamResponse) -> None:
    """Make a response of a Kubernetes server harmless on the dashboard's origin: it sets no cookies, allows no other
    origins, redirects nowhere, and is never shown as a page."""
    headers = response.headers
    for name in {name for name in headers if name.lower() not in _PASSED_HEADERS}:
        headers.popall(name)
    media_type = headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media_type and media_type not in _PASSED_MEDIA_TYPES:
        headers["Content-Type"] = "application/octet-stream"
        headers["Content-Disposition"] = "attachment"
    headers.update(SECURITY_HEADERS)
    headers["Cache-Control"] = "no-store"
