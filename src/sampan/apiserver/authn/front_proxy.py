"""Request header authentication: a front proxy with a trusted certificate names the user in headers."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from multidict import CIMultiDict

from sampan.apiserver.request.call import Call, UserInfo, add_authenticated_group
from sampan.machinery import errors

_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontProxySettings:
    ca: Path
    """The CA that signs the client certificates of front proxies."""
    allowed_names: Sequence[str] = ()
    """The accepted common names of front proxies; none: any."""
    username_headers: Sequence[str] = ()
    uid_headers: Sequence[str] = ()
    group_headers: Sequence[str] = ()
    extra_prefixes: Sequence[str] = ()


class FrontProxyAuthenticator:
    """TLS has verified the certificate against the CA of front proxies; the HTTP layer passes it in
    `Call.proxy_certificate`."""

    def __init__(self, settings: FrontProxySettings, *, now: Callable[[], float] = time.time) -> None:
        self._settings, self._now = settings, now

    def authenticate(self, call: Call) -> UserInfo | None:
        if call.proxy_certificate is None:
            return None
        settings, allowed = self._settings, self._settings.allowed_names
        if call.proxy_certificate.expires < self._now():
            raise errors.unauthorized()
        if allowed and call.proxy_certificate.common_name not in allowed:
            return None
        name = _find_first_header(call.headers, settings.username_headers)
        if not name:
            return None
        user = UserInfo(
            name,
            _find_first_header(call.headers, settings.uid_headers),
            add_authenticated_group(_list_header_values(call.headers, settings.group_headers)),
            _extra(call.headers, settings.extra_prefixes),
        )
        call.headers = _without_user_headers(call.headers, settings)
        return user


def _find_first_header(headers: Mapping[str, str], names: Iterable[str]) -> str:
    return next((value for name in names if (value := headers.get(name, ""))), "")


def _list_header_values(headers: Mapping[str, str], names: Iterable[str]) -> list[str]:
    return [value for name in names for key, value in headers.items() if value and key.lower() == name.lower()]


def _extra(headers: Mapping[str, str], prefixes: Iterable[str]) -> dict[str, tuple[str, ...]]:
    extra: dict[str, tuple[str, ...]] = {}
    for prefix in map(str.lower, prefixes):
        for header, value in headers.items():
            if header.lower().startswith(prefix):
                key = header.lower().removeprefix(prefix)
                key = key if _BAD_ESCAPE.search(key) else unquote(key)
                extra[key] = (*extra.get(key, ()), value)
    return extra


def _without_user_headers(headers: Mapping[str, str], settings: FrontProxySettings) -> Mapping[str, str]:
    """Return the headers without those that name the user."""
    names = {*settings.username_headers, *settings.uid_headers, *settings.group_headers}
    dropped_headers, prefixes = set(map(str.lower, names)), tuple(map(str.lower, settings.extra_prefixes))
    passed_headers = ((key, value) for key, value in headers.items() if key.lower() not in dropped_headers)
    return CIMultiDict(
        (key, value) for key, value in passed_headers if not (prefixes and key.lower().startswith(prefixes))
    )
