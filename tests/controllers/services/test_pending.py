"""Nothing is planned on a cache that does not show what we wrote."""

import asyncio
from typing import Any

from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.controllers.services.pending import Pending
from sampan.machinery.clock import VirtualClock
from sampan.machinery.object_key import Key

OWNER = Key("default", "web")


def made(name: str, version: str = "10") -> Any:
    return EndpointSlice(metadata=ObjectMeta(name=name, namespace="default", resourceVersion=version))


def test_an_owner_waits_for_what_was_written_for_it() -> None:
    pending = Pending(clock=VirtualClock())
    pending.wrote(OWNER, made("a"), None)
    pending.wrote(OWNER, made("b"), made("b", "9"))
    assert pending.wait_s(OWNER) == 30
    assert pending.is_own(None, made("a"))
    assert pending.wait_s(OWNER) == 30
    assert not pending.is_own(made("b", "9"), made("b")), "the owner was held up: look at it now"
    assert pending.wait_s(OWNER) == 0


def test_who_was_not_held_up_need_not_look_again() -> None:
    pending = Pending(clock=VirtualClock())
    pending.wrote(OWNER, made("a"), None)
    assert pending.is_own(None, made("a"))
    assert not pending.is_own(made("a"), made("a", "11")), "that was somebody else"
    pending.wrote(OWNER, made("a", "13"), made("a", "11"))
    assert pending.is_own(made("a", "11"), made("a", "13"))
    pending.wrote(OWNER, made("a", "14"), made("a", "13"))
    assert not pending.is_own(made("a", "13"), None), "a deletion is never ours"
    assert pending.wait_s(OWNER) == 0


def test_news_that_come_before_the_answer_are_not_waited_for() -> None:
    pending = Pending(clock=VirtualClock())
    pending.wrote(OWNER, made("a"), made("a"))
    pending.wrote(OWNER, made("b"), made("b", "12"))
    assert pending.wait_s(OWNER) == 0


def test_older_news_end_no_waiting() -> None:
    pending = Pending(clock=VirtualClock())
    pending.wrote(OWNER, made("a"), made("a", "7"))
    assert not pending.is_own(made("a", "7"), made("a", "8"))
    assert pending.wait_s(OWNER) == 30


def test_what_never_comes_is_given_up() -> None:
    clock = VirtualClock()
    pending = Pending(clock=clock)
    pending.wrote(OWNER, made("a"), None)
    asyncio.run(clock.advance(30))
    assert pending.wait_s(OWNER) == 0
    pending.forget(OWNER)
    assert not pending.is_own(None, made("a"))
