"""The chain of authenticators: the first that recognizes the request decides; otherwise the request is anonymous.

Client certificates and bearer tokens are read here; each kind of token has an authenticator of its own. The
counterparts are `k8s.io/apiserver/pkg/authentication/request/union`, `request/x509`, `request/bearertoken`,
`request/websocket` and `token/union`.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sampan.apiserver.request.call import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, Call, UserInfo
from sampan.host.bounded_cache import BoundedCache
from sampan.machinery import errors
from sampan.machinery.telemetry.metrics import Metrics

_ANONYMOUS = UserInfo(ANONYMOUS, "", (UNAUTHENTICATED,))
INVALID_TOKEN = "invalid bearer token"


class RequestAuthenticator(Protocol):
    """Authenticates by the connection or the headers of a request."""

    def authenticate(self, call: Call) -> UserInfo | None:
        """Return the user, or None if the request has no credentials of this type. Raise Unauthorized if they are
        invalid."""


@dataclass(frozen=True, slots=True)
class AuthenticationResponse:
    """The user of a token, and the requested audiences for which the token is valid; empty means all of them."""

    user: UserInfo
    audiences: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """Warnings for the client that uses the token."""


class TokenError(ValueError):
    """A token of a type that the authenticator handles is invalid."""


class TokenAuthenticator(Protocol):
    """Authenticates bearer tokens."""

    async def authenticate_token(self, token: str, audiences: Sequence[str] = ()) -> AuthenticationResponse | None:
        """Return the identity, or None if this authenticator does not handle the token. Raise `TokenError` if it
        handles the token but the token is invalid. Without `audiences`, the audiences of this server apply."""


@runtime_checkable
class _ClosableAuthenticator(Protocol):
    """An authenticator that holds connections and must be closed."""

    async def close(self) -> None: ...


class UnionTokenAuthenticator:
    """Tries several token authenticators in order; the first one that accepts the token decides."""

    def __init__(self, authenticators: Sequence[TokenAuthenticator]) -> None:
        self._authenticators = tuple(authenticators)

    async def authenticate_token(self, token: str, audiences: Sequence[str] = ()) -> AuthenticationResponse:
        """Return the identity of a token. Raise `TokenError` if no authenticator accepts it."""
        failures = []
        for authenticator in self._authenticators:
            try:
                identity = await authenticator.authenticate_token(token, audiences)
            except TokenError as error:
                failures.append(str(error))
            except RecursionError:
                failures.append("the token's JSON is nested too deeply")
            else:
                if identity is not None:
                    return identity
        raise TokenError(f"[{', '.join([INVALID_TOKEN, *failures])}]" if failures else INVALID_TOKEN)

    async def close(self) -> None:
        for authenticator in self._authenticators:
            if isinstance(authenticator, _ClosableAuthenticator):
                await authenticator.close()


class UnionAuthenticator:
    """Tries several authenticators in order. Requests without credentials are anonymous if anonymous requests are
    allowed. Requests with an unknown token, or with the certificate of a front proxy but without a user, are always
    rejected."""

    def __init__(
        self,
        authenticators: Sequence[RequestAuthenticator],
        *,
        tokens: Sequence[TokenAuthenticator] = (),
        allows_anonymous: bool = True,
        anonymous_paths: Sequence[str] = (),
    ) -> None:
        """`anonymous_paths` are the paths on which anonymous requests are allowed; none: all paths."""
        self._authenticators, self.tokens = tuple(authenticators), UnionTokenAuthenticator(tokens)
        self._allows_anonymous, self._anonymous_paths = allows_anonymous, frozenset(anonymous_paths)

    async def authenticate(self, call: Call) -> UserInfo:
        has_failed = False
        for authenticator in self._authenticators:
            try:
                user = authenticator.authenticate(call)
            except errors.Unauthorized:
                has_failed = True  # another authenticator may still succeed, but the request cannot be anonymous
                continue
            if user is not None:
                return user
        if token := bearer_token(call) or subprotocol_token(call):
            try:
                identity = await self.tokens.authenticate_token(token)
            except TokenError:
                raise errors.unauthorized() from None
            for warning in identity.warnings:
                call.warn(warning)
            return identity.user
        if has_failed or not self._allows_anonymous or call.proxy_certificate is not None:
            raise errors.unauthorized()
        if self._anonymous_paths and call.path not in self._anonymous_paths:
            raise errors.unauthorized()
        return _ANONYMOUS


SUBPROTOCOL = "base64url.bearer.authorization.k8s.io."
"""The prefix of the subprotocol that contains a token."""
_EXTRA_SPACE = "the provided Authorization header contains extra space before the bearer token, and is ignored"


def bearer_token(call: Call) -> str:
    """Return the bearer token; empty if there is none or the header is malformed."""
    header = call.headers.get("Authorization")
    if header is None:
        return ""
    scheme, *words = header.strip().split(" ", 2)
    if scheme.lower() != "bearer" or not words:
        return ""
    if not words[0] and len(words) > 1:
        call.warn(_EXTRA_SPACE)
    return words[0]


def subprotocol_token(call: Call) -> str:
    """Return the token among the WebSocket subprotocols. There must be another subprotocol to negotiate besides it."""
    header = call.headers.get("Sec-WebSocket-Protocol")
    if header is None or call.headers.get("Upgrade", "").lower() != "websocket":
        return ""
    words = [word.strip() for word in header.split(",")]
    tokens = [word for word in words if word.startswith(SUBPROTOCOL)]
    if len(tokens) != 1 or len(words) == 1:
        return ""
    return _decode_base64url(tokens[0].removeprefix(SUBPROTOCOL))


def _decode_base64url(text: str) -> str:
    try:
        padding = "=" * (-len(text) % 4)
        return base64.b64decode(text + padding, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        return ""


_LIFETIME_BUCKETS = (
    0,
    *(hours * 3600.0 for hours in (0.5, 1, 2, 6, 12)),
    *(days * 86400.0 for days in (1, 2, 4, 7, 30, 90, 180, 360)),
)


class CertificateAuthenticator:
    """Authenticates by the client certificate that TLS has verified against the client CA.

    The HTTP layer passes the certificate in `Call.client_certificate`. TLS verifies at the handshake only. Whether the
    certificate is still valid is checked at each request, so that an open connection does not outlive it.
    """

    def __init__(self, *, metrics: Metrics | None = None, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._lifetimes = (
            (metrics or Metrics())
            .histogram(
                "apiserver_client_certificate_expiration_seconds",
                "Remaining lifetime of the client certificates that authenticate requests.",
                buckets=_LIFETIME_BUCKETS,
            )
            .labels()
        )

    def authenticate(self, call: Call) -> UserInfo | None:
        peer = call.client_certificate
        if peer is None:
            return None
        lifetime_s = peer.expires - self._now()
        if lifetime_s < 0:
            raise errors.unauthorized()
        self._lifetimes.observe(lifetime_s)
        return _users[peer.common_name, peer.organizations]


def _make_user(subject: tuple[str, tuple[str, ...]]) -> UserInfo | None:
    name, organizations = subject
    return UserInfo(name, "", (*organizations, AUTHENTICATED)) if name else None


_users = BoundedCache(_make_user, max_entries=4096)
"""The users of certificates by common name and organizations."""


class AudienceAgnostic:
    def __init__(self, tokens: TokenAuthenticator, *, audiences: Sequence[str]) -> None:
        self._tokens, self._audiences = tokens, tuple(audiences)

    async def authenticate_token(self, token: str, audiences: Sequence[str] = ()) -> AuthenticationResponse | None:
        if not audiences:
            return await self._tokens.authenticate_token(token)
        common = tuple(word for word in audiences if word in self._audiences)
        identity = await self._tokens.authenticate_token(token) if common else None
        return AuthenticationResponse(identity.user, common) if identity is not None else None
