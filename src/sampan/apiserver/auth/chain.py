"""The authenticators in their order: the first that knows the caller decides; nobody does for the anonymous."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sampan.apiserver.auth.bearer import bearer_token, subprotocol_token
from sampan.apiserver.call import ANONYMOUS, UNAUTHENTICATED, Call, User
from sampan.machinery import errors

_ANONYMOUS = User(ANONYMOUS, "", (UNAUTHENTICATED,))
INVALID_TOKEN = "invalid bearer token"


class OneAuthenticator(Protocol):
    """Knows callers by what the connection or the headers say of them."""

    def authenticate(self, call: Call) -> User | None:
        """The user, None if the call carries nothing that this one knows; Unauthorized if it carries a lie."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose token it is, and for which of the audiences that were asked for it is good; empty: all of them."""

    user: User
    audiences: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """What whoever uses the token should know."""


class TokenFault(ValueError):
    """What is wrong with a token that is of a kind that the authenticator knows."""


class TokenAuthenticator(Protocol):
    """Knows callers by their tokens."""

    async def identify(self, token: str, audiences: Sequence[str] = ()) -> Identity | None:
        """None if the token is not of the kind that this one believes; `TokenFault` if it is, but not good. Without
        audiences those of this server are meant."""


@runtime_checkable
class _Closing(Protocol):
    """One that holds connections."""

    async def close(self) -> None: ...


class Tokens:
    """All who know tokens, in order."""

    def __init__(self, authenticators: Sequence[TokenAuthenticator]) -> None:
        self._authenticators = tuple(authenticators)

    async def identify(self, token: str, audiences: Sequence[str] = ()) -> Identity:
        """`TokenFault` if nobody believes the token."""
        faults = []
        for authenticator in self._authenticators:
            try:
                found = await authenticator.identify(token, audiences)
            except TokenFault as fault:
                faults.append(str(fault))
            except RecursionError:
                faults.append("the token's JSON is nested too deeply")
            else:
                if found is not None:
                    return found
        raise TokenFault(f"[{', '.join([INVALID_TOKEN, *faults])}]" if faults else INVALID_TOKEN)

    async def close(self) -> None:
        for authenticator in self._authenticators:
            if isinstance(authenticator, _Closing):
                await authenticator.close()


class AuthenticatorChain:
    """A call without credentials is anonymous, where that is allowed; one with a token that nobody knows, or with the
    certificate of a proxy that names nobody, is refused even where the anonymous may go."""

    def __init__(
        self,
        authenticators: Sequence[OneAuthenticator],
        *,
        tokens: Sequence[TokenAuthenticator] = (),
        allows_anonymous: bool = True,
        anonymous_paths: Sequence[str] = (),
    ) -> None:
        """`anonymous_paths` are where the anonymous may go; none: everywhere."""
        self._authenticators, self.tokens = tuple(authenticators), Tokens(tokens)
        self._allows_anonymous, self._anonymous_paths = allows_anonymous, frozenset(anonymous_paths)

    async def authenticate(self, call: Call) -> User:
        has_failed = False
        for authenticator in self._authenticators:
            try:
                user = authenticator.authenticate(call)
            except errors.Unauthorized:
                has_failed = True  # another way may still know the caller, but anonymous it is not
                continue
            if user is not None:
                return user
        if token := bearer_token(call) or subprotocol_token(call):
            try:
                found = await self.tokens.identify(token)
            except TokenFault:
                raise errors.unauthorized() from None
            for warning in found.warnings:
                call.warn(warning)
            return found.user
        if has_failed or not self._allows_anonymous or call.proxy is not None:
            raise errors.unauthorized()
        if self._anonymous_paths and call.path not in self._anonymous_paths:
            raise errors.unauthorized()
        return _ANONYMOUS


__all__ = ["AuthenticatorChain", "Identity", "OneAuthenticator", "TokenAuthenticator", "TokenFault", "Tokens"]
