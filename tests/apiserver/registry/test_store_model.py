"""Random writes, compared with a small model of the life cycle of objects."""

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
version_choices = st.sampled_from(("current", "old", "none"))
policies = st.sampled_from(("", "Background", "Orphan", "Foreground"))
steps = st.one_of(
    st.tuples(st.just("create"), names, numbers, finalizer_lists),
    st.tuples(st.just("put"), names, numbers, version_choices),
    st.tuples(st.just("merge"), names, numbers),
    st.tuples(st.just("finalizers"), names, finalizer_lists),
    st.tuples(st.just("delete"), names, policies),
    st.tuples(st.just("dry"), names, numbers),
)


@dataclass
class ModelObject:
    """What the model knows about an existing object."""

    number: int
    finalizers: list[str]
    uid: str
    version: int
    is_marked: bool = False
    earlier: list[int] = field(default_factory=list)
    """Resource versions before the current one."""


class Model:
    def __init__(self, api: Api) -> None:
        self.api, self.subject = api, api.subject
        self.objects: dict[str, ModelObject] = {}
        self.version = 0
        """The resource version of the last write that changed anything."""
        self.uids: set[str] = set()

    async def step(self, action: str, name: str, *args: Any) -> None:
        await getattr(self, action)(name, *args)
        await self._compare(name)

    async def create(self, name: str, number: int, finalizers: list[str]) -> None:
        reply = await self.api.create(self.subject.build_object(name, number, finalizers=finalizers))
        if name in self.objects:
            assert reply.code == 409
            assert reply.message.startswith("object is being deleted") == self.objects[name].is_marked
            return
        assert reply.code == 201, reply.value
        uid = reply.value["metadata"]["uid"]
        assert uid not in self.uids
        self.uids.add(uid)
        self.objects[name] = ModelObject(number, list(finalizers), uid, self._record_version(reply))

    async def put(self, name: str, number: int, choice: str) -> None:
        expected = self.objects.get(name)
        current = (await self.api.get(name)).value if expected else self.subject.build_object(name)
        sent = {
            **current,
            **_merge_content(current, self.subject.content(number)),
            "metadata": dict(current["metadata"]),
        }
        old = expected.earlier[-1] if expected and expected.earlier else 1
        if choice != "current":
            sent["metadata"]["resourceVersion"] = str(old) if choice == "old" else ""
        reply = await self.api.put(name, sent)
        if expected is None:
            assert reply.code == 404
        elif choice == "old":
            assert reply.code == 409, reply.value
        elif choice == "none" and self.subject.needs_version:
            assert reply.code == 422, reply.value
        else:
            self._expect_change(reply, expected, number=number)

    async def merge(self, name: str, number: int) -> None:
        reply = await self.api.merge(name, self.subject.content(number))
        if (expected := self.objects.get(name)) is None:
            assert reply.code == 404
        else:
            self._expect_change(reply, expected, number=number)

    async def finalizers(self, name: str, finalizers: list[str]) -> None:
        reply = await self.api.merge(name, {"metadata": {"finalizers": finalizers}})
        expected = self.objects.get(name)
        if expected is None:
            assert reply.code == 404
        elif expected.is_marked and not set(finalizers) <= set(expected.finalizers):
            assert reply.code == 422, reply.value
        elif expected.is_marked and not finalizers:
            assert reply.code == 200, reply.value
            del self.objects[name]
        else:
            self._expect_change(reply, expected, finalizers=finalizers)

    async def delete(self, name: str, policy: str) -> None:
        reply = await self.api.delete(name, {"propagationPolicy": policy} if policy else None)
        if (expected := self.objects.get(name)) is None:
            assert reply.code == 404
            return
        assert reply.code == 200, reply.value
        finalizers = _with_policy_finalizer(expected.finalizers, policy)
        if not finalizers:
            del self.objects[name]
            return
        was_marked, expected.is_marked = expected.is_marked, True
        self._expect_change(reply, expected, finalizers=finalizers, is_changed=not was_marked)

    async def dry(self, name: str, number: int) -> None:
        assert (await self.api.merge(name, self.subject.content(number), "dryRun=All")).code in (200, 404)
        assert (await self.api.delete(name, {"dryRun": ["All"]})).code in (200, 404)
        assert (await self.api.create(self.subject.build_object(name), "dryRun=All")).code == (
            409 if name in self.objects else 201
        )

    def _expect_change(
        self,
        reply: Reply,
        expected: ModelObject,
        *,
        number: int | None = None,
        finalizers: list[str] | None = None,
        is_changed: bool = False,
    ) -> None:
        assert reply.code == 200, reply.value
        number = expected.number if number is None else number
        finalizers = expected.finalizers if finalizers is None else finalizers
        if not is_changed and (number, finalizers) == (expected.number, expected.finalizers):
            assert int(reply.version) == expected.version, "nothing changed, so nothing was written"
            return
        expected.earlier.append(expected.version)
        expected.number, expected.finalizers, expected.version = number, list(finalizers), self._record_version(reply)

    def _record_version(self, reply: Reply) -> int:
        version = int(reply.version)
        assert version > self.version, "versions only grow"
        self.version = version
        return version

    async def _compare(self, name: str) -> None:
        reply, expected = await self.api.get(name), self.objects.get(name)
        if expected is None:
            assert reply.code == 404
            return
        meta = reply.value["metadata"]
        assert (meta["uid"], int(meta["resourceVersion"])) == (expected.uid, expected.version)
        assert self.subject.number(reply.value) == expected.number
        assert meta.get("finalizers", []) == expected.finalizers
        assert ("deletionTimestamp" in meta) == expected.is_marked

    async def compare_all(self) -> None:
        listed = (await self.api.list()).value["items"]
        assert [item["metadata"]["name"] for item in listed] == sorted(self.objects)


def _merge_content(base: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
    return {key: {**base.get(key, {}), **value} for key, value in content.items()}


def _with_policy_finalizer(finalizers: list[str], policy: str) -> list[str]:
    if not policy:
        return finalizers
    kept = [finalizer for finalizer in finalizers if finalizer not in POLICY_FINALIZERS.values()]
    expected = [*kept, POLICY_FINALIZERS[policy]] if policy in POLICY_FINALIZERS else kept
    return finalizers if set(expected) == set(finalizers) else expected


async def _run_script(subject: RegistrySubject, script: list[tuple[Any, ...]]) -> None:
    async with subject.open() as pipeline:
        model = Model(Api(pipeline, subject))
        for action, name, *args in script:
            await model.step(action, name, *args)
        await model.compare_all()


@pytest.mark.parametrize("resource", SUBJECTS)
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=st.lists(steps, min_size=8, max_size=40))
def test_random_writes_match_the_model(resource: str, script: list[tuple[Any, ...]]) -> None:
    asyncio.run(asyncio.wait_for(_run_script(SUBJECTS[resource](), script), 60))
