"""Nothing is created twice because the cache is behind."""

import asyncio
from typing import Any

from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.controllers.services.pending import Pending
from sampan.machinery.clock import VirtualClock
from sampan.machinery.object_key import Key

OWNER = Key("default", "web")


def made(name: str, version: str = "1") -> Any:
    return EndpointSlice(metadata=ObjectMeta(name=name, namespace="default", resourceVersion=version))


def test_an_owner_waits_for_what_was_created_for_it() -> None:
    pending = Pending(clock=VirtualClock())
    for name in ("a", "b"):
        pending.created(OWNER, made(name))
        pending.wrote(made(name))
    assert pending.wait_s(OWNER) == 30
    assert pending.is_own(None, made("a"))
    assert pending.wait_s(OWNER) == 30
    assert not pending.is_own(None, made("b")), "the owner was held up: look at it now"
    assert pending.wait_s(OWNER) == 0


def test_who_was_not_held_up_need_not_look_again() -> None:
    pending = Pending(clock=VirtualClock())
    pending.created(OWNER, made("a"))
    pending.wrote(made("a"))
    assert pending.is_own(None, made("a"))
    assert not pending.is_own(made("a"), made("a", "2")), "that was somebody else"
    pending.wrote(made("a", "3"))
    assert pending.is_own(made("a", "2"), made("a", "3"))
    pending.wrote(made("a", "4"))
    assert not pending.is_own(made("a", "4"), None), "a deletion is never ours"


def test_what_never_comes_is_given_up() -> None:
    clock = VirtualClock()
    pending = Pending(clock=clock)
    pending.created(OWNER, made("a"))
    asyncio.run(clock.advance(30))
    assert pending.wait_s(OWNER) == 0
    pending.forget(OWNER)
    assert not pending.is_own(None, made("a"))
