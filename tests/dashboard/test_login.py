"""Failed log-ins are limited by address, and kubeconfigs with exponential aliases are rejected."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from itertools import pairwise

import pytest

from sampan.dashboard.login import Login, LoginLimiter, LoginRequest, kubeconfig_credentials
from sampan.dashboard.sessions import OneTimeCodes
from sampan.host.clock import VirtualClock
from sampan.machinery import errors
from sampan.machinery.client.user_api import UserApi, UserCredentials

LETTERS = "abcdefghijklmnop"


async def test_failed_log_ins_of_an_address_are_limited() -> None:
    clock = VirtualClock()
    limiter = LoginLimiter(clock=clock)
    for number in range(10):
        limiter.start(f"2001:db8::{number}", str(number))
    with pytest.raises(errors.TooManyRequests):
        limiter.start("2001:db8::ffff", "another")
    limiter.start("2001:db8:0:1::1", "a")
    limiter.start("192.0.2.1", "a")
    await clock.advance(60)
    limiter.start("2001:db8::1", "a")


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_failed_log_ins_of_one_local_user_do_not_exclude_the_others(address: str) -> None:
    limiter = LoginLimiter(clock=VirtualClock())
    for number in range(100):
        limiter.start(address, f"guess {number}")
    limiter.start(address, "own token")
    for _ in range(9):
        limiter.start(address, "own token")
    with pytest.raises(errors.TooManyRequests):
        limiter.start(address, "own token")


class UnusedCluster:
    """A cluster that no credentials reach."""

    async def open_with_credentials(self, credentials: UserCredentials) -> UserApi:
        raise AssertionError(credentials)

    async def open_for_request(self, request: object) -> UserApi:
        raise AssertionError(request)

    def with_own_credentials(self) -> UserApi:
        raise AssertionError


def make_login() -> Login:
    clock = VirtualClock()
    return Login(clusters={"c": UnusedCluster()}, codes=OneTimeCodes(clock=clock), clock=clock)


@pytest.mark.parametrize("text", ["a: [", "a: b", "x" * 100_000], ids=["no YAML", "no kubeconfig", "too large"])
async def test_unusable_kubeconfigs_count_as_failures(text: str) -> None:
    login = make_login()
    for _ in range(10):
        with pytest.raises(errors.BadRequest):
            await login.log_in(LoginRequest(kubeconfig=text), "192.0.2.1")
    with pytest.raises(errors.TooManyRequests):
        await login.log_in(LoginRequest(kubeconfig=text), "192.0.2.1")


async def test_kubeconfigs_are_read_one_after_the_other_and_few_wait() -> None:
    """They are parsed before anything is known about their sender."""
    text, login = "a: [" + "b, " * 5000 + "]", make_login()
    attempts = [
        asyncio.create_task(login.log_in(LoginRequest(kubeconfig=text), f"192.0.2.{number}")) for number in range(40)
    ]
    await asyncio.sleep(0)
    assert sum(thread.name == "sampan-kubeconfig" for thread in threading.enumerate()) <= 1
    results = await asyncio.gather(*attempts, return_exceptions=True)
    assert Counter(map(type, results)) == {errors.BadRequest: 8, errors.TooManyRequests: 32}


def test_successful_log_ins_are_not_limited() -> None:
    limiter = LoginLimiter(clock=VirtualClock())
    for _ in range(100):
        limiter.record_success(limiter.start("192.0.2.1", "a"))


@pytest.mark.parametrize(
    "bomb",
    [
        "".join(f"{name}: &{name} [{f'*{before}, ' * 9}]\n" for before, name in pairwise(LETTERS)),
        "".join(f"{name}: &{name} {{<<: [{f'*{before}, ' * 9}], {name}: 1}}\n" for before, name in pairwise(LETTERS)),
    ],
    ids=["aliases", "merge keys"],
)
def test_kubeconfig_with_exponential_aliases_is_rejected(bomb: str) -> None:
    with pytest.raises(errors.BadRequest):
        kubeconfig_credentials(f"a: &a {{x: 1}}\n{bomb}")
