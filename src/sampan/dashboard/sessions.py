"""Sessions of people who logged in, and the one-time codes that `sampan dashboard` logs in with.

Identifiers are 256 random bits. Only their hashes are kept, so that neither a timing difference of a lookup nor a dump
of memory reveals one. Nothing of a session is ever written to disk or to a log.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from sampan.machinery.client.user_api import UserApi
from sampan.machinery.clock import Clock

IDLE_S = 30 * 60.0
LIFETIME_S = 12 * 3600.0
CODE_LIFETIME_S = 60.0
_SESSIONS = 500
"""The maximum number of sessions. When it is reached, the session that was inactive for the longest time is closed."""
_MAX_SESSIONS_PER_USER = 20
_MAX_LISTS_PER_SESSION = 4
_CODES = 64
_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class User:
    username: str
    groups: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True, eq=False)
class LoginSession:
    user: User
    apis: Mapping[str, UserApi]
    """The API of each cluster, with the rights of the user, by the name of the cluster."""
    csrf_token: str
    opened_at: float
    active_at: float
    disconnects: set[Callable[[], Awaitable[None]]] = field(default_factory=set)
    """Functions that close the open connections of the session."""
    stream_count: int = 0
    special_subscriptions: int = 0
    list_turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MAX_LISTS_PER_SESSION))
    """A semaphore that is held while a page of a list is read and sent to a stream of the session."""
    is_closed: bool = False

    def has_csrf_token(self, token: str) -> bool:
        return hmac.compare_digest(self.csrf_token.encode(), token.encode("utf-8", "replace"))


class LoginSessions:
    def __init__(self, *, clock: Clock, idle_s: float = IDLE_S, lifetime_s: float = LIFETIME_S) -> None:
        self._clock, self.idle_s, self._lifetime_s = clock, idle_s, lifetime_s
        self._sessions: OrderedDict[bytes, LoginSession] = OrderedDict()
        """The sessions by the hash of their identifiers, the least recently active first."""

    def __len__(self) -> int:
        return len(self._sessions)

    async def open(self, user: User, apis: Mapping[str, UserApi]) -> tuple[str, LoginSession]:
        """Open a session. Return its new identifier and the session."""
        await self.close_expired()
        same_user = [session for session in self._sessions.values() if session.user.username == user.username]
        if len(same_user) >= _MAX_SESSIONS_PER_USER:
            await self.close(same_user[0])
        if len(self._sessions) >= _SESSIONS:
            await self.close(next(iter(self._sessions.values())))
        identifier, now = secrets.token_urlsafe(_SECRET_BYTES), self._clock.monotonic()
        session = LoginSession(
            user=user, apis=apis, csrf_token=secrets.token_urlsafe(_SECRET_BYTES), opened_at=now, active_at=now
        )
        self._sessions[_hash(identifier)] = session
        return identifier, session

    def get(self, identifier: str) -> LoginSession | None:
        session = self._sessions.get(_hash(identifier)) if identifier else None
        return session if session is not None and not self.is_expired(session) else None

    def touch(self, identifier: str) -> None:
        """Record that the person is active."""
        key = _hash(identifier)
        if (session := self._sessions.get(key)) is not None:
            session.active_at = self._clock.monotonic()
            self._sessions.move_to_end(key)

    def is_expired(self, session: LoginSession) -> bool:
        now = self._clock.monotonic()
        return (
            session.is_closed or now - session.active_at >= self.idle_s or now - session.opened_at >= self._lifetime_s
        )

    def remaining_idle_s(self, session: LoginSession) -> float:
        """Return the seconds after which the session ends without activity."""
        now = self._clock.monotonic()
        return max(0.0, min(session.active_at + self.idle_s, session.opened_at + self._lifetime_s) - now)

    async def close(self, session: LoginSession) -> None:
        """Log the session out: forget its credentials and close its connections."""
        session.is_closed = True
        for key in [key for key, candidate in self._sessions.items() if candidate is session]:
            del self._sessions[key]
        await asyncio.gather(*(disconnect() for disconnect in list(session.disconnects)))
        for api in session.apis.values():
            await api.close()

    async def close_expired(self) -> None:
        for session in [session for session in self._sessions.values() if self.is_expired(session)]:
            await self.close(session)

    async def close_all(self) -> None:
        await asyncio.gather(*(self.close(session) for session in list(self._sessions.values())))


class OneTimeCodes:
    """Codes that are valid once, for a minute. A code gives access to the APIs with the rights of the user who
    requested it."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._codes: OrderedDict[bytes, tuple[float, Mapping[str, UserApi]]] = OrderedDict()

    def issue(self, apis: Mapping[str, UserApi]) -> str:
        if len(self._codes) >= _CODES:
            self._codes.popitem(last=False)
        code = secrets.token_urlsafe(_SECRET_BYTES)
        self._codes[_hash(code)] = (self._clock.monotonic() + CODE_LIFETIME_S, apis)
        return code

    def redeem(self, code: str) -> Mapping[str, UserApi] | None:
        """Return the APIs that a code stands for, and invalidate it; None if it is unknown, used or expired."""
        digest, match = _hash(code), None
        for key in self._codes:
            if hmac.compare_digest(key, digest):
                match = key
        if match is None:
            return None
        expires, apis = self._codes.pop(match)
        return apis if self._clock.monotonic() < expires else None


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()
