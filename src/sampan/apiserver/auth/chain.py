"""The authenticators in their order: the first that knows the caller decides; nobody does for the anonymous."""

from collections.abc import Sequence
from typing import Protocol

from sampan.apiserver.call import ANONYMOUS, UNAUTHENTICATED, Call, User
from sampan.machinery import errors

_ANONYMOUS = User(ANONYMOUS, "", (UNAUTHENTICATED,))


class OneAuthenticator(Protocol):
    def authenticate(self, call: Call) -> User | None:
        """The user, None if the call carries nothing that this one knows."""


class AuthenticatorChain:
    def __init__(self, authenticators: Sequence[OneAuthenticator], *, allows_anonymous: bool = True) -> None:
        self._authenticators = tuple(authenticators)
        self._allows_anonymous = allows_anonymous

    async def authenticate(self, call: Call) -> User:
        for authenticator in self._authenticators:
            user = authenticator.authenticate(call)
            if user is not None:
                return user
        if _has_bearer_token(call) or not self._allows_anonymous:
            raise errors.unauthorized()
        return _ANONYMOUS


class Everybody:
    """The plain HTTP port: whoever reaches it is taken for the administrator."""

    def __init__(self, user: User) -> None:
        self._user = user

    async def authenticate(self, call: Call) -> User:
        return self._user


def _has_bearer_token(call: Call) -> bool:
    scheme, _, token = call.headers.get("Authorization", "").partition(" ")
    return scheme.lower() == "bearer" and bool(token) and not token.startswith(" ")
