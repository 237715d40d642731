"""One API request on its way through the pipeline, independent of the transport, and the user who makes it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Protocol
from urllib.parse import parse_qsl

from sampan.api import limits, names
from sampan.api.resources.resource import Resource
from sampan.apiserver.request.negotiation import DEFAULT_FORMAT, OutputFormat
from sampan.machinery.pki.server_tls import PeerCertificate

ANONYMOUS = "system:anonymous"
MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
_ACCOUNT_PREFIX = "system:serviceaccount:"
SERVICE_ACCOUNTS = "system:serviceaccounts"
_NODE_CLAIM = "authentication.kubernetes.io/node-name"
PROXIED_SUBRESOURCES = frozenset({"attach", "exec", "portforward", "proxy"})
"""Subresources that are proxied to a backend: they return its response and stream the request body."""


@dataclass(frozen=True, slots=True)
class UserInfo:
    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def service_account_username(namespace: str, name: str) -> str:
    return f"{_ACCOUNT_PREFIX}{namespace}:{name}"


def service_account_groups(namespace: str) -> list[str]:
    return [SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}"]


def service_account_user(
    namespace: str, name: str, uid: str = "", extra: Mapping[str, tuple[str, ...]] | None = None
) -> UserInfo:
    return UserInfo(
        service_account_username(namespace, name), uid, (*service_account_groups(namespace), AUTHENTICATED), extra or {}
    )


def split_service_account(username: str) -> tuple[str, str] | None:
    """Return the namespace and name of a service account user; None for any other user."""
    if not username.startswith(_ACCOUNT_PREFIX):
        return None
    namespace, colon, name = username.removeprefix(_ACCOUNT_PREFIX).partition(":")
    if not colon or names.dns1123_label(namespace) or names.dns1123_subdomain(name):
        return None
    return namespace, name


def is_service_account_on(user: UserInfo, node: str) -> bool:
    """Whether the user is a service account whose token is bound to this node."""
    return split_service_account(user.name) is not None and user.extra.get(_NODE_CLAIM) == (node,)


def add_authenticated_group(groups: Iterable[str]) -> tuple[str, ...]:
    own = tuple(groups)
    return own if AUTHENTICATED in own or UNAUTHENTICATED in own else (*own, AUTHENTICATED)


class Query:
    """The query string. The first value of a key wins, as in kube-apiserver; `get_all` returns every value."""

    __slots__ = ("_values",)

    def __init__(self, raw: str) -> None:
        self._values: dict[str, list[str]] = {}
        if raw:
            for key, value in parse_qsl(raw, keep_blank_values=True):
                self._values.setdefault(key, []).append(value)

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[str, str]]) -> Query:
        """Create a query from pairs that are already decoded."""
        query = cls("")
        for key, value in pairs:
            query._values.setdefault(key, []).append(value)
        return query

    def __bool__(self) -> bool:
        return bool(self._values)

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def get(self, key: str, default: str = "") -> str:
        values = self._values.get(key)
        return values[0] if values else default

    def get_all(self, key: str) -> list[str]:
        return self._values.get(key, [])

    def pairs(self) -> Iterable[tuple[str, str]]:
        return ((key, value) for key, values in self._values.items() for value in values)

    def flag(self, key: str) -> bool:
        """Return a boolean as kube-apiserver reads it: anything but "0" and "false" is true, even an empty value."""
        return key in self._values and self.get(key).lower() not in ("0", "false")


class AuditContext(Protocol):
    """The audit record of one request, filled in while the request is served."""

    @property
    def id(self) -> str:
        """The audit ID, which the client receives in the Audit-ID header."""

    def record_impersonation(self, user: UserInfo) -> None:
        """Record that the request is executed as an impersonated user."""

    def record_decision(self, decision: Any) -> None:
        """Record the decision of the authorizers."""

    def annotate(self, key: str, value: str) -> None:
        """Add an audit annotation."""

    def record_response(self, response: Any) -> None:
        """Record the response of a request that succeeded."""

    def record_failure(self, error: BaseException) -> None:
        """Record that the request was rejected or failed."""

    def complete(self) -> None:
        """Record that a long-running response, a watch, has completed."""


class RequestTransport(Protocol):
    """The transport's part in serving a request."""

    @property
    def target(self) -> str:
        """The path and query exactly as the client sent them."""

    @property
    def remote_address(self) -> str:
        """The address of the client."""

    def enter(self, call: Call) -> Awaitable[None] | None:
        """Admit the classified request to flow control. Return None if it may run at once, or an awaitable that ends
        when it is its turn; raise TooManyRequests if too many requests are waiting."""

    async def read_body(self, call: Call) -> None:
        """Read the body, once the request is authorized."""

    def release_seats(self) -> None:
        """Let other requests run: a watch has started, and costs little from now on."""


class Warnings(list[str]):
    """The texts of a response's Warning headers, in order and each only once.

    They are bounded as in k8s.io/apiserver/pkg/endpoints/filters/warning.go: when all texts together would exceed 4096
    characters, each of them is truncated to 256; when the truncated ones have reached 4096 characters, the rest is
    dropped. Adding a warning costs the same however many there are.
    """

    is_full = False
    """Whether further warnings are dropped, so that there is no point in computing them."""
    _recorded: dict[str, None] | None = None
    """Every text in full length. Created with the first warning: most requests have none."""
    _length = 0
    _is_truncating = False

    def add(self, text: str) -> None:
        if self.is_full or not text or _CONTROL.search(text) is not None:
            return
        if self._recorded is None:
            self._recorded = {}
        if text in self._recorded:
            return
        self._recorded[text] = None
        if not self._is_truncating and self._length + len(text) > limits.WARNINGS_LENGTH:
            self._truncate()
        else:
            self._show(text)

    def _truncate(self) -> None:
        assert self._recorded is not None
        self._is_truncating, self._length = True, 0
        self.clear()
        for text in self._recorded:
            self._show(text)

    def _show(self, text: str) -> None:
        shown = text[: limits.WARNING_LENGTH] if self._is_truncating else text
        self.append(shown)
        self._length += len(shown)
        self.is_full = self._is_truncating and self._length >= limits.WARNINGS_LENGTH


_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
"""kube-apiserver drops warnings with control characters, which a header cannot carry."""


@dataclass(slots=True, kw_only=True)
class Call:
    method: str
    path: str
    query: Query
    headers: Mapping[str, str]
    body: bytes = b""
    client_certificate: PeerCertificate | None = None
    """The client certificate, if it was verified against the client CA."""
    proxy_certificate: PeerCertificate | None = None
    """The client certificate, if it was verified against the CA of front proxies (request header CA)."""
    transport: RequestTransport | None = None
    audit: AuditContext | None = None
    """None if nothing of the request is written to the audit log."""
    user: UserInfo = UserInfo(ANONYMOUS)
    verb: str = ""
    """get, list, watch, create, update, patch, delete or deletecollection; the lower-case method for non-resource
    URLs."""
    resource: Resource | None = None
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    tail: str = ""
    """The rest of the path after a subresource that takes a path (proxy)."""
    output_format: OutputFormat = DEFAULT_FORMAT
    """The negotiated form of the response."""
    is_classic_watch: bool = False
    """Whether the path is one of the deprecated watch paths, /api/v1/watch/…"""
    warnings: Warnings = field(default_factory=Warnings)
    excluded_s: float = 0.0
    """The time that the request has spent in queues of flow control and in admission webhooks, which does not count
    towards the service level of this server."""

    def warn(self, text: str) -> None:
        self.warnings.add(text)

    def exclude_time(self, seconds: float) -> None:
        """Exclude a time from the duration that counts towards the service level."""
        self.excluded_s += seconds

    def has_enough_warnings(self) -> bool:
        """Whether further warnings are dropped."""
        return self.warnings.is_full

    @property
    def user_agent(self) -> str:
        return self.headers.get("User-Agent", "")


def request_in_frame(frame: FrameType) -> str:
    """Return a description of the request that a stack frame serves, for a log; empty if it serves none.

    The query is left out, as it can contain credentials.
    """
    call = frame.f_locals.get("call")
    return f"{call.method} {call.path[:256]!r} by {call.user.name[:256]!r}" if isinstance(call, Call) else ""
