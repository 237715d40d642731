"""Bearer tokens from a file of lines `token,user,uid,"group1,group2"`."""

import csv
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from sampan.apiserver.authn.authenticator import AuthenticationResponse
from sampan.apiserver.request.call import AUTHENTICATED, UserInfo


class TokenFileError(ValueError):
    """The token file is invalid; the message names the file and the line."""


def read_user_file(path: Path) -> list[tuple[str, UserInfo]]:
    """Return pairs of a secret (a token or a password) and its user."""
    entries: list[tuple[str, UserInfo]] = []
    number = 0
    try:
        with path.open(newline="", encoding="utf-8") as lines:
            for number, row in enumerate(csv.reader(lines, skipinitialspace=True), start=1):
                if row and not row[0].startswith("#"):
                    entries.append(_entry(row, f"{path}, line {number}"))
    except (csv.Error, UnicodeDecodeError) as error:
        raise TokenFileError(f"{path}, line {number + 1}: {error}") from None
    return entries


def _entry(row: list[str], source: str) -> tuple[str, UserInfo]:
    token, name, uid, *other_columns = (part.strip() for part in (*row, "", "")[: max(len(row), 3)])
    if len(row) < 3 or not token or not name:
        raise TokenFileError(f"{source}: want token,user,uid and optional groups")
    groups = [group.strip() for group in (other_columns[0] if other_columns else "").split(",") if group.strip()]
    if AUTHENTICATED not in groups:
        groups.append(AUTHENTICATED)
    return token, UserInfo(name, uid, tuple(groups))


class FileTokens:
    """Authenticates the tokens of a token file. Only hashes of the tokens are stored. The time of a look-up by hash
    reveals nothing about the tokens."""

    def __init__(self, users: Mapping[str, UserInfo]) -> None:
        self._users = {_hash(token): AuthenticationResponse(user) for token, user in users.items()}

    async def authenticate_token(self, token: str, audiences: Sequence[str] = ()) -> AuthenticationResponse | None:
        """Return the identity of a token, which is valid for every audience."""
        return self._users.get(_hash(token))


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
