"""Client certificates: the common name is the user, the organizations are its groups."""

import time
from collections.abc import Callable
from functools import lru_cache

from sampan.apiserver.call import AUTHENTICATED, Call, User
from sampan.machinery import errors


class CertificateAuthenticator:
    """Trusts what TLS has verified against the client CA; the HTTP layer passes it in `Call.peer`.

    TLS verifies at the handshake only. Whether the certificate is still valid is checked at each request, so that an
    open connection does not outlive it.
    """

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        self._now = now

    def authenticate(self, call: Call) -> User | None:
        peer = call.peer
        if peer is None:
            return None
        if peer.expires < self._now():
            raise errors.unauthorized()
        return _user(peer.common_name, peer.organizations)


@lru_cache(maxsize=4096)
def _user(name: str, organizations: tuple[str, ...]) -> User | None:
    return User(name, "", (*organizations, AUTHENTICATED)) if name else None
