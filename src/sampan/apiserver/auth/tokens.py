"""Bearer tokens from a file of lines `token,user,uid,"group1,group2"`."""

import csv
from pathlib import Path

from sampan.apiserver.call import AUTHENTICATED, Call, User


class TokenFileError(ValueError):
    """The token file cannot be read; the message names the file and the line."""


def read_token_file(path: Path) -> dict[str, User]:
    found: dict[str, User] = {}
    with path.open(newline="") as lines:
        for number, row in enumerate(csv.reader(lines, skipinitialspace=True), start=1):
            if not row or row[0].startswith("#"):
                continue
            if len(row) < 3 or not row[0]:
                raise TokenFileError(f"{path}, line {number}: want token,user,uid and optional groups")
            token, name, uid = (part.strip() for part in row[:3])
            groups = tuple(group.strip() for group in row[3].split(",") if group.strip()) if len(row) > 3 else ()
            found[token] = User(name, uid, (*groups, AUTHENTICATED))
    return found


class TokenAuthenticator:
    def __init__(self, users: dict[str, User]) -> None:
        self._users = users

    def authenticate(self, call: Call) -> User | None:
        """The token's user; None if there is no bearer token or it is not known here."""
        scheme, _, token = call.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            return None
        user = self._users.get(token)
        return user
