"""The authenticators in their order: the first that knows the caller decides; nobody does for the anonymous."""

from collections.abc import Sequence
from typing import Protocol

from sampan.apiserver.auth.bearer import bearer_token, subprotocol_token
from sampan.apiserver.call import ANONYMOUS, UNAUTHENTICATED, Call, User
from sampan.machinery import errors

_ANONYMOUS = User(ANONYMOUS, "", (UNAUTHENTICATED,))


class OneAuthenticator(Protocol):
    """Knows callers by what the connection or the headers say of them."""

    def authenticate(self, call: Call) -> User | None:
        """The user, None if the call carries nothing that this one knows."""


class TokenAuthenticator(Protocol):
    """Knows callers by their tokens."""

    def user_of(self, token: str) -> User | None:
        """The user, None if the token is not one of those that this one gives out or believes."""


class AuthenticatorChain:
    """A call without credentials is anonymous, where that is allowed; one with a token that nobody knows is refused,
    even where the anonymous may go."""

    def __init__(
        self,
        authenticators: Sequence[OneAuthenticator],
        *,
        tokens: Sequence[TokenAuthenticator] = (),
        allows_anonymous: bool = True,
    ) -> None:
        self._authenticators, self._tokens = tuple(authenticators), tuple(tokens)
        self._allows_anonymous = allows_anonymous

    async def authenticate(self, call: Call) -> User:
        for authenticator in self._authenticators:
            user = authenticator.authenticate(call)
            if user is not None:
                return user
        if token := bearer_token(call) or subprotocol_token(call):
            return self._user_of(token)
        if not self._allows_anonymous:
            raise errors.unauthorized()
        return _ANONYMOUS

    def _user_of(self, token: str) -> User:
        for authenticator in self._tokens:
            user = authenticator.user_of(token)
            if user is not None:
                return user
        raise errors.unauthorized()


__all__ = ["AuthenticatorChain", "OneAuthenticator", "TokenAuthenticator"]
