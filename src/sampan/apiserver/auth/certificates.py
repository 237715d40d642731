"""Client certificates: the common name is the user, the organizations are its groups."""

from functools import lru_cache
from typing import Any

from sampan.apiserver.call import AUTHENTICATED, Call, User


class CertificateAuthenticator:
    """Trusts what TLS has verified against the client CA; the HTTP layer leaves the subject in `Call.peer`."""

    def authenticate(self, call: Call) -> User | None:
        return _user(call.peer) if call.peer else None


@lru_cache(maxsize=4096)
def _user(subject: Any) -> User | None:
    name, groups = "", []
    for relative in subject:
        for key, value in relative:
            if key == "commonName":
                name = value
            elif key == "organizationName":
                groups.append(value)
    return User(name, "", (*groups, AUTHENTICATED)) if name else None
