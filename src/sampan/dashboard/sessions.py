"""Sessions of people who logged in, and the one-time codes that `sampan dashboard` logs in with.

Identifiers are 256 random bits. Only their hashes are kept, so that neither a timing difference of a lookup nor a dump
of memory reveals one. Nothing of a session is ever written to a log. With a `SessionArchive` sessions survive a restart
of the server; it keeps their credentials encrypted with a key that only the browser's cookie gives.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from sampan.host.clock import Clock
from sampan.machinery.client.user_api import UserApi

IDLE_S = 30 * 60.0
LIFETIME_S = 12 * 3600.0
CODE_LIFETIME_S = 60.0
MAX_SESSIONS = 500
"""The maximum number of sessions. When it is reached, the user or tenant with the most sessions loses the one that was
inactive for the longest time."""
_MAX_SESSIONS_PER_USER = 20
_MAX_SESSIONS_PER_TENANT = 40
_MAX_LISTS_PER_SESSION = 4
_ACTIVITY_SAVE_S = 60.0
"""How much activity of a session may be lost if the process is killed, in seconds: it is saved no more often."""
_MAX_CODES = 512
_MAX_CODES_PER_TENANT = 8
_ACCOUNT_PREFIX = "system:serviceaccount:"
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
    sealed: bytes = b""
    """The session in the form in which an archive keeps it; empty if it ends with the process."""
    disconnects: set[Callable[[], Awaitable[None]]] = field(default_factory=set)
    """Functions that close the open connections of the session."""
    stream_count: int = 0
    special_subscriptions: int = 0
    list_turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MAX_LISTS_PER_SESSION))
    """A semaphore that is held while a page of a list is read and sent to a stream of the session."""
    is_closed: bool = False
    is_logged_out: bool = False
    """Whether the session is closed for good, and not because the server stops."""

    @property
    def username(self) -> str:
        return self.user.username

    def has_csrf_token(self, token: str) -> bool:
        return hmac.compare_digest(self.csrf_token.encode(), token.encode("utf-8", "replace"))


@dataclass(slots=True, kw_only=True, eq=False)
class SealedSession:
    """A session of an earlier run of the server, whose cookie has not come back yet."""

    username: str
    opened_at: float
    active_at: float
    sealed: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsealedSession:
    user: User
    csrf_token: str
    apis: Mapping[str, UserApi]


class SessionArchive(Protocol):
    """Keeps sessions over a restart of the server. Times are those of the clock's `monotonic()`."""

    def seal(self, identifier: str, session: LoginSession) -> bytes:
        """Return the session encrypted with its identifier; empty if it cannot be kept."""

    def unseal(self, identifier: str, session: SealedSession) -> UnsealedSession | None:
        """Return the content of a session; None if it is not valid any more."""

    async def load(self) -> Mapping[bytes, SealedSession]:
        """Return the sessions that were saved, by the hash of their identifier, the least recently active first."""

    async def save(self, sessions: Mapping[bytes, LoginSession | SealedSession]) -> None:
        """Replace all saved sessions."""


class LoginSessions:
    """The sessions of a server. `load` must be called before the first use; without an archive it does nothing."""

    def __init__(
        self,
        *,
        clock: Clock,
        archive: SessionArchive | None = None,
        idle_s: float = IDLE_S,
        lifetime_s: float = LIFETIME_S,
    ) -> None:
        self._clock, self._archive = clock, archive
        self.idle_s, self._lifetime_s = idle_s, lifetime_s
        self._sessions: OrderedDict[bytes, LoginSession | SealedSession] = OrderedDict()
        """The sessions by the hash of their identifiers, the least recently active first."""
        self._loading = asyncio.Lock()
        self._is_loaded = archive is None
        self._saved_at = clock.monotonic()

    def __len__(self) -> int:
        return len(self._sessions)

    async def load(self) -> None:
        """Read the sessions of an earlier run, once."""
        if self._archive is None or self._is_loaded:
            return
        async with self._loading:
            if not self._is_loaded:
                for key, session in (await self._archive.load()).items():
                    self._sessions.setdefault(key, session)
                self._is_loaded = True

    async def open(self, user: User, apis: Mapping[str, UserApi]) -> tuple[str, LoginSession]:
        """Open a session. Return its new identifier and the session."""
        await self.close_expired()
        if (surplus := self._find_surplus(user.username)) is not None:
            await self._close(surplus)
        identifier, now = secrets.token_urlsafe(_SECRET_BYTES), self._clock.monotonic()
        session = LoginSession(
            user=user, apis=apis, csrf_token=secrets.token_urlsafe(_SECRET_BYTES), opened_at=now, active_at=now
        )
        if self._archive is not None:
            session.sealed = self._archive.seal(identifier, session)
        self._sessions[_hash(identifier)] = session
        await self._save()
        return identifier, session

    def _find_surplus(self, username: str) -> LoginSession | SealedSession | None:
        """Return the session that makes room for a new one: of the same user or tenant, if these have too many, or else
        of the tenant with the most. So nobody ends the sessions of others by logging in often."""
        sessions = list(self._sessions.values())
        of_user = [session for session in sessions if session.username == username]
        if len(of_user) >= _MAX_SESSIONS_PER_USER:
            return of_user[0]
        tenants = [tenant_of(session.username) for session in sessions]
        if tenants.count(tenant_of(username)) >= _MAX_SESSIONS_PER_TENANT:
            return sessions[tenants.index(tenant_of(username))]
        return sessions[tenants.index(_largest(tenants))] if len(sessions) >= MAX_SESSIONS else None

    def get(self, identifier: str) -> LoginSession | None:
        key = _hash(identifier)
        session = self._sessions.get(key) if identifier else None
        if session is None or self.is_expired(session):
            return None
        return self._unseal(identifier, key, session) if isinstance(session, SealedSession) else session

    def _unseal(self, identifier: str, key: bytes, sealed: SealedSession) -> LoginSession | None:
        content = self._archive.unseal(identifier, sealed) if self._archive is not None else None
        if content is None:
            del self._sessions[key]
            return None
        session = self._sessions[key] = LoginSession(
            user=content.user,
            apis=content.apis,
            csrf_token=content.csrf_token,
            opened_at=sealed.opened_at,
            active_at=sealed.active_at,
            sealed=sealed.sealed,
        )
        return session

    def touch(self, identifier: str) -> None:
        """Record that the person is active."""
        key = _hash(identifier)
        if (session := self._sessions.get(key)) is not None:
            session.active_at = self._clock.monotonic()
            self._sessions.move_to_end(key)

    async def save_activity(self) -> None:
        """Save the last activity of the sessions, unless they were saved a short time ago."""
        if self._clock.monotonic() - self._saved_at >= _ACTIVITY_SAVE_S:
            await self._save()

    def is_expired(self, session: LoginSession | SealedSession) -> bool:
        now = self._clock.monotonic()
        return (
            (isinstance(session, LoginSession) and session.is_closed)
            or now - session.active_at >= self.idle_s
            or now - session.opened_at >= self._lifetime_s
        )

    def remaining_idle_s(self, session: LoginSession) -> float:
        """Return the seconds after which the session ends without activity."""
        now = self._clock.monotonic()
        return max(0.0, min(session.active_at + self.idle_s, session.opened_at + self._lifetime_s) - now)

    async def close(self, session: LoginSession) -> None:
        """Log the session out: forget its credentials and close its connections."""
        await self._close(session)
        await self._save()

    async def _close(self, session: LoginSession | SealedSession) -> None:
        for key in [key for key, candidate in self._sessions.items() if candidate is session]:
            del self._sessions[key]
        if isinstance(session, LoginSession):
            session.is_logged_out = True
            await _disconnect(session)

    async def close_expired(self) -> None:
        for session in [session for session in self._sessions.values() if self.is_expired(session)]:
            await self._close(session)

    async def stop(self) -> None:
        """Close all connections because the server stops. Sessions that the archive keeps go on after a restart."""
        await self._save()
        sessions = [session for session in self._sessions.values() if isinstance(session, LoginSession)]
        self._sessions.clear()
        for session in sessions:
            session.is_logged_out = not session.sealed
        await asyncio.gather(*(_disconnect(session) for session in sessions))

    async def _save(self) -> None:
        if self._archive is not None and self._is_loaded:
            self._saved_at = self._clock.monotonic()
            sessions = {key: session for key, session in self._sessions.items() if not self.is_expired(session)}
            await self._archive.save(sessions)


async def _disconnect(session: LoginSession) -> None:
    session.is_closed = True
    await asyncio.gather(*(disconnect() for disconnect in list(session.disconnects)))
    for api in session.apis.values():
        await api.close()


def tenant_of(username: str) -> str:
    """Return who shares the limits of a user: the service accounts of a namespace, which one person can create in any
    number, or the user alone."""
    return username.rpartition(":")[0] if username.startswith(_ACCOUNT_PREFIX) else username


def _largest(tenants: Sequence[str]) -> str:
    return Counter(tenants).most_common(1)[0][0]


class _PendingCode(NamedTuple):
    expires: float
    tenant: str
    apis: Mapping[str, UserApi]


class OneTimeCodes:
    """Codes that are valid once, for a minute. A code gives access to the APIs with the rights of the user who
    requested it."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._codes: OrderedDict[bytes, _PendingCode] = OrderedDict()
        """The codes by their hash, the oldest first."""

    def issue(self, apis: Mapping[str, UserApi], username: str = "") -> str:
        now, tenant = self._clock.monotonic(), tenant_of(username)
        for key in [key for key, pending in self._codes.items() if pending.expires <= now]:
            del self._codes[key]
        tenants = [pending.tenant for pending in self._codes.values()]
        if tenants.count(tenant) >= _MAX_CODES_PER_TENANT:
            self._drop_oldest(tenant)
        elif len(tenants) >= _MAX_CODES:
            self._drop_oldest(_largest(tenants))
        code = secrets.token_urlsafe(_SECRET_BYTES)
        self._codes[_hash(code)] = _PendingCode(now + CODE_LIFETIME_S, tenant, apis)
        return code

    def _drop_oldest(self, tenant: str) -> None:
        del self._codes[next(key for key, pending in self._codes.items() if pending.tenant == tenant)]

    def redeem(self, code: str) -> Mapping[str, UserApi] | None:
        """Return the APIs that a code stands for, and invalidate it; None if it is unknown, used or expired."""
        digest, match = _hash(code), None
        for key in self._codes:
            if hmac.compare_digest(key, digest):
                match = key
        if match is None:
            return None
        pending = self._codes.pop(match)
        return pending.apis if self._clock.monotonic() < pending.expires else None


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()
