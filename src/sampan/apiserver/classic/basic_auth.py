"""HTTP basic authentication, with passwords from a file of lines `password,user,uid,"group1,group2"`."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable

from sampan.apiserver.request.call import Call, UserInfo
from sampan.machinery import errors


class BasicAuthenticator:
    """Stores only hashes of the passwords. A wrong password is rejected even if anonymous requests are allowed."""

    def __init__(self, users: Iterable[tuple[str, UserInfo]]) -> None:
        """`users` are the passwords and users of the file, in its order. Several users may have the same password; of
        several lines for one user the last one counts."""
        self._known = {user.name: (_hash(password), user) for password, user in users}

    def authenticate(self, call: Call) -> UserInfo | None:
        header = call.headers.get("Authorization", "")
        scheme, _, encoded = header.partition(" ")
        if scheme.lower() != "basic":
            return None
        name, colon, password = _decode_base64(encoded.strip()).partition(":")
        digest, user = self._known.get(name, (b"", None))
        if not colon or not hmac.compare_digest(digest, _hash(password)) or user is None:
            raise errors.unauthorized()
        return user


def _hash(password: str) -> bytes:
    return hashlib.sha256(password.encode("utf-8", "surrogatepass")).digest()


def _decode_base64(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        return ""
