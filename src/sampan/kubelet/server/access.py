"""Who may see and do what on a node: the API server is asked, as for any resource of it, about nodes/stats,
nodes/metrics, nodes/log, nodes/pods, nodes/healthz, nodes/configz, and nodes/proxy for all the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiohttp import web

from sampan.api.types.authentication_v1 import UserInfo
from sampan.api.types.authorization_v1 import ResourceAttributes
from sampan.kubelet.server.view import Refusal
from sampan.machinery import errors
from sampan.machinery.client import ConnectionFailed
from sampan.machinery.delegation import ANONYMOUS, Delegation

_VERBS = {"POST": "create", "GET": "get", "HEAD": "", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_FINE = (("/pods", "pods"), ("/runningpods", "pods"), ("/healthz", "healthz"), ("/configz", "configz"))
"""Paths with a right of their own, besides nodes/proxy."""
_OWN = (
    ("/stats", "stats"),
    ("/metrics", "metrics"),
    ("/logs", "log"),
    ("/checkpoint", "checkpoint"),
    ("/statusz", "statusz"),
    ("/flagz", "configz"),
)
"""Paths with another right instead."""
_AUTHENTICATED = "system:authenticated"


def subresources(path: str) -> list[str]:
    """Of which the caller must have a right to one."""
    found = [name for start, name in _FINE if _is_below(path, start)][:1]
    return [*found, next((name for start, name in _OWN if _is_below(path, start)), "proxy")]


def _is_below(path: str, start: str) -> bool:
    return path == start or path.startswith(f"{start}/")


class Access:
    def __init__(self, *, node: str, delegation: Delegation, allows_anonymous: bool = False) -> None:
        """Callers with a certificate were verified by TLS."""
        self._node, self._delegation, self._allows_anonymous = node, delegation, allows_anonymous

    async def check(self, request: web.BaseRequest) -> None:
        user = await self._user(request)
        verb, wanted = _VERBS.get(request.method, ""), subresources(request.path)
        for subresource in wanted:
            if await self._may(user, verb, subresource):
                return
        what = f"user={user.username}, verb={verb}, resource=nodes, subresource(s)=[{' '.join(wanted)}]"
        raise Refusal(403, f"Forbidden ({what})\n")

    async def _user(self, request: web.BaseRequest) -> UserInfo:
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        if certificate and (found := subject_user(certificate.get("subject", ()))) is not None:
            return found
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            if self._allows_anonymous:
                return ANONYMOUS
            raise Refusal(401, "Unauthorized")
        try:
            user = await self._delegation.user_of(token.strip())
        except (errors.ApiError, ConnectionFailed):
            user = None
        if user is None:
            raise Refusal(401, "Unauthorized")
        return user

    async def _may(self, user: UserInfo, verb: str, subresource: str) -> bool:
        asked = ResourceAttributes(verb=verb, version="v1", resource="nodes", subresource=subresource, name=self._node)
        try:
            return (await self._delegation.may_use(user, asked)).is_allowed
        except (errors.ApiError, ConnectionFailed):
            what = f"user={user.username}, verb={verb}, resource=nodes, subresource={subresource}"
            raise Refusal(500, f"Authorization error ({what})") from None


def subject_user(subject: Sequence[Any]) -> UserInfo | None:
    """Whom a certificate names: the common name is the user, organizations are groups."""
    pairs = [pair for parts in subject for pair in parts]
    names = [value for key, value in pairs if key == "commonName"]
    groups = [value for key, value in pairs if key == "organizationName"]
    return UserInfo(username=names[0], groups=[*groups, _AUTHENTICATED]) if names else None


__all__ = ["Access", "subject_user", "subresources"]
