"""Sessions, one-time codes and the limit on failed log-ins are bounded in number and time."""

from __future__ import annotations

from itertools import pairwise
from typing import cast

import pytest

from sampan.dashboard.login import LoginLimiter, kubeconfig_credentials
from sampan.dashboard.sessions import CODE_LIFETIME_S, IDLE_S, LIFETIME_S, LoginSessions, OneTimeCodes, User
from sampan.dashboard.stream.changes import ChangeBudget, CoalescedChanges
from sampan.machinery import errors
from sampan.machinery.client.user_api import UserApi
from sampan.machinery.clock import VirtualClock


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


async def test_one_user_cannot_fill_the_memory_with_sessions_or_end_those_of_others() -> None:
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


async def test_identifiers_are_not_kept() -> None:
    sessions = LoginSessions(clock=VirtualClock())
    identifier, session = await sessions.open(User("a"), {"c": api()})
    assert identifier not in repr(vars(sessions))
    assert len(identifier) >= 43
    assert session.csrf_token != identifier


async def test_a_code_is_valid_once_and_for_a_minute() -> None:
    clock = VirtualClock()
    codes, apis = OneTimeCodes(clock=clock), {"c": api()}
    code = codes.issue(apis)
    assert codes.redeem("guessed") is None
    assert codes.redeem(code) is apis
    assert codes.redeem(code) is None
    late = codes.issue(apis)
    await clock.advance(CODE_LIFETIME_S)
    assert codes.redeem(late) is None


def test_codes_that_nobody_uses_are_forgotten() -> None:
    codes = OneTimeCodes(clock=VirtualClock())
    first = codes.issue({})
    for _ in range(1000):
        codes.issue({})
    assert codes.redeem(first) is None


async def test_failed_log_ins_of_an_address_are_limited() -> None:
    clock = VirtualClock()
    limiter = LoginLimiter(clock=clock)
    for number in range(10):
        limiter.start(f"2001:db8::{number}")
    with pytest.raises(errors.TooManyRequests):
        limiter.start("2001:db8::ffff")
    limiter.start("2001:db8:0:1::1")
    limiter.start("192.0.2.1")
    await clock.advance(60)
    limiter.start("2001:db8::1")


def test_log_ins_that_succeed_are_not_limited() -> None:
    limiter = LoginLimiter(clock=VirtualClock())
    for _ in range(100):
        limiter.succeed("192.0.2.1", limiter.start("192.0.2.1"))


def test_changes_of_a_page_that_does_not_read_are_bounded() -> None:
    changes = CoalescedChanges(ChangeBudget())
    for _ in range(100):
        changes.add("a", b'"row"')
    assert changes.take() == (b'[["PUT","row"]]', False)
    changes.add("a", None)
    assert changes.take() == (b'[["DELETE","a"]]', False)
    row = b"x" * 100_000
    for number in range(1000):
        changes.add(str(number), row)
        if changes.is_overflowed:
            break
    assert changes.is_overflowed
    assert not changes


def test_changes_of_many_pages_that_do_not_read_are_bounded_together() -> None:
    budget = ChangeBudget(most_bytes=10_000)
    unread = [CoalescedChanges(budget) for _ in range(10)]
    reading = CoalescedChanges(budget)
    for changes in (*unread, reading):
        changes.open()
    for number in range(100):
        for changes in unread:
            changes.add(str(number), b"x" * 100)
        assert budget.bytes <= 11_000
        reading.add("a", b"row")
        assert not reading.is_overflowed  # it has less than its share
        reading.take()
    assert any(changes.is_overflowed for changes in unread)
    for changes in (*unread, reading):
        changes.close()
    assert (budget.bytes, budget.subscriptions) == (0, 0)


LETTERS = "abcdefghijklmnop"


@pytest.mark.parametrize(
    "bomb",
    [
        "".join(f"{name}: &{name} [{f'*{before}, ' * 9}]\n" for before, name in pairwise(LETTERS)),
        "".join(f"{name}: &{name} {{<<: [{f'*{before}, ' * 9}], {name}: 1}}\n" for before, name in pairwise(LETTERS)),
    ],
    ids=["aliases", "merge keys"],
)
async def test_a_kubeconfig_that_grows_when_it_is_read_is_refused(bomb: str) -> None:
    with pytest.raises(errors.BadRequest):
        await kubeconfig_credentials(f"a: &a {{x: 1}}\n{bomb}")
