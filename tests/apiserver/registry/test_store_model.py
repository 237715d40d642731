"""Random writes against a small model of what an object's life allows."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.register_assert_rewrite("sampan.testing.registry_conformance")

from sampan.testing.registry_conformance import Api, RegistrySubject, Reply  # noqa: E402
from tests.apiserver.registry.subjects import SUBJECTS  # noqa: E402

NAMES = ("a", "b")
FINALIZERS = ("example.com/one", "example.com/two")
POLICY_FINALIZERS = {"Orphan": "orphan", "Foreground": "foregroundDeletion"}

names = st.sampled_from(NAMES)
numbers = st.integers(0, 3)
finalizer_lists = st.lists(st.sampled_from(FINALIZERS), unique=True)
which_version = st.sampled_from(("current", "old", "none"))
policies = st.sampled_from(("", "Background", "Orphan", "Foreground"))
steps = st.one_of(
    st.tuples(st.just("create"), names, numbers, finalizer_lists),
    st.tuples(st.just("put"), names, numbers, which_version),
    st.tuples(st.just("merge"), names, numbers),
    st.tuples(st.just("finalizers"), names, finalizer_lists),
    st.tuples(st.just("delete"), names, policies),
    st.tuples(st.just("dry"), names, numbers),
)


@dataclass
class Thing:
    """What the model knows of an object that exists."""

    number: int
    finalizers: list[str]
    uid: str
    version: int
    is_marked: bool = False
    earlier: list[int] = field(default_factory=list)
    """Versions that it had before."""


class World:
    def __init__(self, api: Api) -> None:
        self.api, self.subject = api, api.subject
        self.things: dict[str, Thing] = {}
        self.version = 0
        """Of the last write that changed anything."""
        self.uids: set[str] = set()

    async def step(self, action: str, name: str, *args: Any) -> None:
        await getattr(self, action)(name, *args)
        await self._compare(name)

    async def create(self, name: str, number: int, finalizers: list[str]) -> None:
        reply = await self.api.create(self.subject.new(name, number, finalizers=finalizers))
        if name in self.things:
            assert reply.code == 409
            assert reply.message.startswith("object is being deleted") == self.things[name].is_marked
            return
        assert reply.code == 201, reply.value
        uid = reply.value["metadata"]["uid"]
        assert uid not in self.uids
        self.uids.add(uid)
        self.things[name] = Thing(number, list(finalizers), uid, self._moved(reply))

    async def put(self, name: str, number: int, which: str) -> None:
        thing = self.things.get(name)
        known = (await self.api.get(name)).value if thing else self.subject.new(name)
        sent = {**known, **_over(known, self.subject.content(number)), "metadata": dict(known["metadata"])}
        old = thing.earlier[-1] if thing and thing.earlier else 1
        if which != "current":
            sent["metadata"]["resourceVersion"] = str(old) if which == "old" else ""
        reply = await self.api.put(name, sent)
        if thing is None:
            assert reply.code == 404
        elif which == "old":
            assert reply.code == 409, reply.value
        elif which == "none" and self.subject.needs_version:
            assert reply.code == 422, reply.value
        else:
            self._changed(reply, thing, number=number)

    async def merge(self, name: str, number: int) -> None:
        reply = await self.api.merge(name, self.subject.content(number))
        if (thing := self.things.get(name)) is None:
            assert reply.code == 404
        else:
            self._changed(reply, thing, number=number)

    async def finalizers(self, name: str, finalizers: list[str]) -> None:
        reply = await self.api.merge(name, {"metadata": {"finalizers": finalizers}})
        thing = self.things.get(name)
        if thing is None:
            assert reply.code == 404
        elif thing.is_marked and not set(finalizers) <= set(thing.finalizers):
            assert reply.code == 422, reply.value
        elif thing.is_marked and not finalizers:
            assert reply.code == 200, reply.value
            del self.things[name]
        else:
            self._changed(reply, thing, finalizers=finalizers)

    async def delete(self, name: str, policy: str) -> None:
        reply = await self.api.delete(name, {"propagationPolicy": policy} if policy else None)
        if (thing := self.things.get(name)) is None:
            assert reply.code == 404
            return
        assert reply.code == 200, reply.value
        finalizers = _with_policy(thing.finalizers, policy)
        if not finalizers:
            del self.things[name]
            return
        was_marked, thing.is_marked = thing.is_marked, True
        self._changed(reply, thing, finalizers=finalizers, is_changed=not was_marked)

    async def dry(self, name: str, number: int) -> None:
        assert (await self.api.merge(name, self.subject.content(number), "dryRun=All")).code in (200, 404)
        assert (await self.api.delete(name, {"dryRun": ["All"]})).code in (200, 404)
        assert (await self.api.create(self.subject.new(name), "dryRun=All")).code == (
            409 if name in self.things else 201
        )

    def _changed(
        self,
        reply: Reply,
        thing: Thing,
        *,
        number: int | None = None,
        finalizers: list[str] | None = None,
        is_changed: bool = False,
    ) -> None:
        assert reply.code == 200, reply.value
        number = thing.number if number is None else number
        finalizers = thing.finalizers if finalizers is None else finalizers
        if not is_changed and (number, finalizers) == (thing.number, thing.finalizers):
            assert int(reply.version) == thing.version, "nothing changed, so nothing was written"
            return
        thing.earlier.append(thing.version)
        thing.number, thing.finalizers, thing.version = number, list(finalizers), self._moved(reply)

    def _moved(self, reply: Reply) -> int:
        version = int(reply.version)
        assert version > self.version, "versions only grow"
        self.version = version
        return version

    async def _compare(self, name: str) -> None:
        reply, thing = await self.api.get(name), self.things.get(name)
        if thing is None:
            assert reply.code == 404
            return
        meta = reply.value["metadata"]
        assert (meta["uid"], int(meta["resourceVersion"])) == (thing.uid, thing.version)
        assert self.subject.number(reply.value) == thing.number
        assert meta.get("finalizers", []) == thing.finalizers
        assert ("deletionTimestamp" in meta) == thing.is_marked

    async def compare_all(self) -> None:
        listed = (await self.api.list()).value["items"]
        assert [item["metadata"]["name"] for item in listed] == sorted(self.things)


def _over(base: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
    return {key: {**base.get(key, {}), **value} for key, value in content.items()}


def _with_policy(finalizers: list[str], policy: str) -> list[str]:
    if not policy:
        return finalizers
    kept = [finalizer for finalizer in finalizers if finalizer not in POLICY_FINALIZERS.values()]
    expected = [*kept, POLICY_FINALIZERS[policy]] if policy in POLICY_FINALIZERS else kept
    return finalizers if set(expected) == set(finalizers) else expected


async def _live(subject: RegistrySubject, script: list[tuple[Any, ...]]) -> None:
    async with subject.open() as pipeline:
        world = World(Api(pipeline, subject))
        for action, name, *args in script:
            await world.step(action, name, *args)
        await world.compare_all()


@pytest.mark.parametrize("resource", SUBJECTS)
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=st.lists(steps, min_size=8, max_size=40))
def test_lives_of_objects(resource: str, script: list[tuple[Any, ...]]) -> None:
    asyncio.run(asyncio.wait_for(_live(SUBJECTS[resource](), script), 60))
