"""Failed log-ins are limited by address, and kubeconfigs with exponential aliases are rejected."""

from __future__ import annotations

from itertools import pairwise

import pytest

from sampan.dashboard.login import LoginLimiter, kubeconfig_credentials
from sampan.machinery import errors
from sampan.machinery.clock import VirtualClock

LETTERS = "abcdefghijklmnop"


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


def test_successful_log_ins_are_not_limited() -> None:
    limiter = LoginLimiter(clock=VirtualClock())
    for _ in range(100):
        limiter.record_success("192.0.2.1", limiter.start("192.0.2.1"))


@pytest.mark.parametrize(
    "bomb",
    [
        "".join(f"{name}: &{name} [{f'*{before}, ' * 9}]\n" for before, name in pairwise(LETTERS)),
        "".join(f"{name}: &{name} {{<<: [{f'*{before}, ' * 9}], {name}: 1}}\n" for before, name in pairwise(LETTERS)),
    ],
    ids=["aliases", "merge keys"],
)
async def test_kubeconfig_with_exponential_aliases_is_rejected(bomb: str) -> None:
    with pytest.raises(errors.BadRequest):
        await kubeconfig_credentials(f"a: &a {{x: 1}}\n{bomb}")
