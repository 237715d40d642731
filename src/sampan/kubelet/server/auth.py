"""Authentication and authorization of requests to a node, delegated to the API server.

The attributes are the subresources nodes/stats, nodes/metrics, nodes/log, nodes/pods, nodes/healthz and nodes/configz,
and nodes/proxy for everything else.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from sampan.api.types.authentication_v1 import UserInfo
from sampan.api.types.authorization_v1 import ResourceAttributes
from sampan.host.http import HttpRequest
from sampan.kubelet.server.view import ErrorResponse
from sampan.machinery import errors
from sampan.machinery.client import ConnectionFailed
from sampan.machinery.http.delegation import ANONYMOUS, DelegatedAuth
from sampan.machinery.pki.server_tls import read_peer

_VERBS = {"POST": "create", "GET": "get", "HEAD": "", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_ADDITIONAL_SUBRESOURCES = (
    ("/pods", "pods"),
    ("/runningpods", "pods"),
    ("/healthz", "healthz"),
    ("/configz", "configz"),
)
"""Path prefixes with a fine-grained subresource that is accepted besides nodes/proxy."""
_REPLACING_SUBRESOURCES = (
    ("/stats", "stats"),
    ("/metrics", "metrics"),
    ("/logs", "log"),
    ("/checkpoint", "checkpoint"),
    ("/statusz", "statusz"),
    ("/flagz", "configz"),
)
"""Path prefixes with a subresource that replaces nodes/proxy."""
_AUTHENTICATED = "system:authenticated"


def subresources(path: str) -> list[str]:
    """Return the subresources of nodes that permit a request to the path. The caller needs access to one of them."""
    specific = [name for start, name in _ADDITIONAL_SUBRESOURCES if _is_below(path, start)][:1]
    return [*specific, next((name for start, name in _REPLACING_SUBRESOURCES if _is_below(path, start)), "proxy")]


def _is_below(path: str, start: str) -> bool:
    return path == start or path.startswith(f"{start}/")


class KubeletAuth:
    def __init__(
        self,
        *,
        node: str,
        delegation: DelegatedAuth,
        allows_anonymous: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        """TLS has verified client certificates at the handshake; whether they are still valid is checked here."""
        self._node, self._delegation, self._allows_anonymous, self._now = node, delegation, allows_anonymous, now

    async def check(self, request: HttpRequest) -> None:
        user = await self._user(request)
        verb, names = _VERBS.get(request.method, ""), subresources(request.path)
        for subresource in names:
            if await self._may_access(user, verb, subresource):
                return
        attributes_text = f"user={user.username}, verb={verb}, resource=nodes, subresource(s)=[{' '.join(names)}]"
        raise ErrorResponse(403, f"Forbidden ({attributes_text})\n")

    async def _user(self, request: HttpRequest) -> UserInfo:
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        peer = read_peer(certificate) if certificate else None
        is_expired = peer is not None and peer.is_expired(self._now())
        if peer is not None and peer.common_name and not is_expired:
            return UserInfo(username=peer.common_name, groups=[*peer.organizations, _AUTHENTICATED])
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            if self._allows_anonymous and not is_expired:
                return ANONYMOUS
            raise ErrorResponse(401, "Unauthorized")
        try:
            user = await self._delegation.user_of(token.strip())
        except (errors.ApiError, ConnectionFailed):
            user = None
        if user is None:
            raise ErrorResponse(401, "Unauthorized")
        return user

    async def _may_access(self, user: UserInfo, verb: str, subresource: str) -> bool:
        attributes = ResourceAttributes(
            verb=verb, version="v1", resource="nodes", subresource=subresource, name=self._node
        )
        try:
            return (await self._delegation.may_use(user, attributes)).is_allowed
        except (errors.ApiError, ConnectionFailed):
            attributes_text = f"user={user.username}, verb={verb}, resource=nodes, subresource={subresource}"
            raise ErrorResponse(500, f"Authorization error ({attributes_text})") from None
