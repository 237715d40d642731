"""The names of the cookies that carry sessions of the dashboard. The API server serves the dashboard and forwards
requests to pods on one origin, so it has to tell these cookies from those of other pages."""

from __future__ import annotations

_PREFIX, _SECURE_PREFIX = "sampan-", "__Host-sampan-"


def make_session_cookie_name(port: int, *, is_secure: bool) -> str:
    """Return the name of the cookie. It contains the port: browsers send cookies to all ports of a host, and several
    clusters on one machine need different names. With TLS, a prefix of the name makes browsers refuse a cookie of this
    name from another host or path, or over plain HTTP."""
    return f"{_SECURE_PREFIX if is_secure else _PREFIX}{port}"


def is_session_cookie(name: str) -> bool:
    """Whether a cookie of this name is one of a dashboard, on any port. Browsers compare prefixes of names without
    regard to case."""
    return name.lower().startswith((_PREFIX, _SECURE_PREFIX.lower()))
