"""A private file that keeps the sessions of people over a restart of the server.

The file has the hash of each session's identifier, and the session itself encrypted with a key that is derived from the
identifier, which only the cookie of the browser has. Who reads the file learns user names and times, but can neither
continue a session nor use its credentials.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import secrets
import stat
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from sampan.api.codec.errors import JSON_ERRORS
from sampan.dashboard.sessions import MAX_SESSIONS, LoginSession, SealedSession, UnsealedSession, User
from sampan.host.clock import Clock, wall_offset
from sampan.machinery import errors
from sampan.machinery.pki.private_files import write_private

if TYPE_CHECKING:
    from sampan.machinery.client.user_api import RestorableApiSource

log = logging.getLogger(__name__)

_FORMAT = 1
_MAX_SEALED_BYTES = 48 << 10
_MAX_FILE_BYTES = 64 << 20
_MAX_CLOCK_ERROR_S = 60.0
_NONCE_BYTES = 12
_PURPOSE = b"sampan dashboard session"
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class _SavedSession(msgspec.Struct, rename="camel"):
    key: bytes
    """The hash of the identifier."""
    username: str
    opened_at: float
    active_at: float
    """Seconds since the epoch."""
    sealed: bytes


class _SavedSessions(msgspec.Struct, rename="camel"):
    format: int
    sessions: list[_SavedSession]


class _Content(msgspec.Struct, rename="camel"):
    """The encrypted part of a session."""

    username: str
    groups: tuple[str, ...]
    csrf_token: str
    credentials: bytes


_decode_file = msgspec.json.Decoder(_SavedSessions).decode
_decode_content = msgspec.json.Decoder(_Content).decode


class SessionFile:
    """The `SessionArchive` of a server with one cluster, whose APIs `source` saves and restores."""

    def __init__(self, path: Path, *, cluster: str, source: RestorableApiSource, clock: Clock) -> None:
        self._path, self._cluster, self._source, self._clock = path, cluster, source, clock
        self._writing = threading.Lock()
        self._count = self._written = 0
        """The number of the latest content, and that of the content in the file."""

    def seal(self, identifier: str, session: LoginSession) -> bytes:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        credentials = self._source.save(session.apis[self._cluster])
        content = _Content(session.user.username, session.user.groups, session.csrf_token, credentials)
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = nonce + AESGCM(_key(identifier)).encrypt(nonce, msgspec.json.encode(content), None)
        return sealed if len(sealed) <= _MAX_SEALED_BYTES else b""

    def unseal(self, identifier: str, session: SealedSession) -> UnsealedSession | None:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce, sealed = session.sealed[:_NONCE_BYTES], session.sealed[_NONCE_BYTES:]
        try:
            content = _decode_content(AESGCM(_key(identifier)).decrypt(nonce, sealed, None))
            api = self._source.restore(content.credentials)
        except (InvalidTag, ValueError, *JSON_ERRORS, errors.Unauthorized):
            return None
        user = User(content.username, content.groups)
        return UnsealedSession(user=user, csrf_token=content.csrf_token, apis={self._cluster: api})

    async def load(self) -> Mapping[bytes, SealedSession]:
        try:
            saved = _decode_file(await asyncio.to_thread(_read_private, self._path))
        except FileNotFoundError:
            return {}
        except (OSError, *JSON_ERRORS) as error:
            log.warning("cannot read the sessions of the dashboard, everybody has to log in again: %s", error)
            return {}
        if saved.format != _FORMAT:
            return {}
        now, offset = self._clock.now(), wall_offset(self._clock)
        return {
            session.key: SealedSession(
                username=session.username,
                opened_at=session.opened_at - offset,
                active_at=session.active_at - offset,
                sealed=session.sealed,
            )
            for session in sorted(saved.sessions, key=lambda entry: entry.active_at)[-MAX_SESSIONS:]
            if max(session.opened_at, session.active_at) <= now + _MAX_CLOCK_ERROR_S
        }

    async def save(self, sessions: Mapping[bytes, LoginSession | SealedSession]) -> None:
        offset = wall_offset(self._clock)
        saved = [
            _SavedSession(key, session.username, session.opened_at + offset, session.active_at + offset, session.sealed)
            for key, session in sessions.items()
            if session.sealed
        ]
        self._count += 1
        await asyncio.to_thread(self._write, self._count, msgspec.json.encode(_SavedSessions(_FORMAT, saved)))

    def _write(self, number: int, content: bytes) -> None:
        """Write the file, unless later content was written in the meantime. If that fails, remove the file: a session
        that was logged out must not come back."""
        with self._writing:
            if number <= self._written:
                return
            self._written = number
            try:
                write_private(self._path, content)
            except OSError as error:
                log.warning("cannot save the sessions of the dashboard, they end with the server: %s", error)
                try:
                    self._path.unlink(missing_ok=True)
                except OSError:
                    log.exception("cannot remove the outdated sessions of the dashboard in %s", self._path)


def _key(identifier: str) -> bytes:
    """Return the key of a session. The identifier has 256 random bits, so that a hash of it with another purpose than
    that of the lookup is a key."""
    return hmac.digest(identifier.encode("utf-8", "replace"), _PURPOSE, "sha256")


def _read_private(path: Path) -> bytes:
    """Return the content of a regular file that only this user may read; raise OSError for any other."""
    with os.fdopen(os.open(path, _READ_FLAGS), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise PermissionError(f"{path} is not a private file of this user")
        if status.st_size > _MAX_FILE_BYTES:
            raise OSError(f"{path} has more than {_MAX_FILE_BYTES} bytes")
        return file.read(_MAX_FILE_BYTES)
