"""Sessions and one-time codes are bounded in number and time."""

from __future__ import annotations

from typing import cast

from sampan.dashboard.sessions import (
    CODE_LIFETIME_S,
    IDLE_S,
    LIFETIME_S,
    MAX_SESSIONS,
    LoginSessions,
    OneTimeCodes,
    User,
)
from sampan.host.clock import VirtualClock
from sampan.machinery.client.user_api import UserApi


class ClosableApi:
    is_closed = False

    async def close(self) -> None:
        self.is_closed = True


def api() -> UserApi:
    return cast(UserApi, ClosableApi())


async def test_a_session_ends_after_half_an_hour_without_activity() -> None:
    clock = VirtualClock()
    sessions = LoginSessions(clock=clock)
    identifier, session = await sessions.open(User("a"), {"c": api()})
    await clock.advance(IDLE_S - 1)
    assert sessions.get(identifier) is session
    sessions.touch(identifier)
    await clock.advance(IDLE_S - 1)
    assert sessions.get(identifier) is session
    await clock.advance(2)
    assert sessions.get(identifier) is None


async def test_a_session_ends_after_twelve_hours_of_activity() -> None:
    clock = VirtualClock()
    sessions = LoginSessions(clock=clock)
    identifier, _ = await sessions.open(User("a"), {"c": api()})
    for _ in range(int(LIFETIME_S / IDLE_S) + 1):
        sessions.touch(identifier)
        await clock.advance(IDLE_S - 10)
    sessions.touch(identifier)
    await clock.advance(IDLE_S)
    assert sessions.get(identifier) is None
    await sessions.close_expired()
    assert len(sessions) == 0


async def test_sessions_of_one_user_are_limited_and_do_not_end_other_users_sessions() -> None:
    sessions = LoginSessions(clock=VirtualClock())
    other, _ = await sessions.open(User("other"), {"c": api()})
    first_api = api()
    first, _ = await sessions.open(User("greedy"), {"c": first_api})
    for _ in range(100):
        await sessions.open(User("greedy"), {"c": api()})
    assert len(sessions) == 21
    assert sessions.get(first) is None
    assert cast(ClosableApi, first_api).is_closed
    assert sessions.get(other) is not None


async def test_service_accounts_of_a_tenant_do_not_end_sessions_of_others() -> None:
    sessions = LoginSessions(clock=VirtualClock())
    administrator, _ = await sessions.open(User("admin"), {"c": api()})
    for account in range(30):
        for _ in range(20):
            await sessions.open(User(f"system:serviceaccount:team:{account}"), {"c": api()})
    assert len(sessions) == 41
    assert sessions.get(administrator) is not None


async def test_many_tenants_lose_their_own_sessions_first() -> None:
    sessions = LoginSessions(clock=VirtualClock())
    administrator, _ = await sessions.open(User("admin"), {"c": api()})
    for tenant in range(30):
        for number in range(40):
            await sessions.open(User(f"system:serviceaccount:team-{tenant}:{number}"), {"c": api()})
    assert len(sessions) == MAX_SESSIONS
    assert sessions.get(administrator) is not None


async def test_session_identifiers_are_not_stored_in_plain_text() -> None:
    sessions = LoginSessions(clock=VirtualClock())
    identifier, session = await sessions.open(User("a"), {"c": api()})
    assert identifier not in repr(vars(sessions))
    assert len(identifier) >= 43
    assert session.csrf_token != identifier


async def test_one_time_code_is_valid_once_and_for_a_minute() -> None:
    clock = VirtualClock()
    codes, apis = OneTimeCodes(clock=clock), {"c": api()}
    code = codes.issue(apis)
    assert codes.redeem("guessed") is None
    assert codes.redeem(code) is apis
    assert codes.redeem(code) is None
    late = codes.issue(apis)
    await clock.advance(CODE_LIFETIME_S)
    assert codes.redeem(late) is None


def test_unused_one_time_codes_are_limited_in_number() -> None:
    codes = OneTimeCodes(clock=VirtualClock())
    first = codes.issue({})
    for _ in range(1000):
        codes.issue({})
    assert codes.redeem(first) is None


def test_codes_of_one_user_or_tenant_do_not_replace_those_of_others() -> None:
    codes = OneTimeCodes(clock=VirtualClock())
    apis = {"c": api()}
    code = codes.issue(apis, "admin")
    for number in range(2000):
        codes.issue({}, "nobody")
        codes.issue({}, f"system:serviceaccount:team-{number % 100}:{number}")
    assert codes.redeem(code) is apis
