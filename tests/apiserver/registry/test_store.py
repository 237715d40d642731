"""What the suite for all resources cannot show: names that collide, updates that create, what a strategy takes and
gives back, the two steps of a deletion with a grace."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

pytest.register_assert_rewrite("sampan.testing.registry_conformance")

from sampan.apiserver.pipeline import Pipeline  # noqa: E402
from sampan.apiserver.registry import store as store_module  # noqa: E402
from sampan.apiserver.registry.behaviour import ResourceBehaviour  # noqa: E402
from sampan.apiserver.registry.strategy import Context, FinishFunc, Strategy  # noqa: E402
from sampan.machinery import errors  # noqa: E402
from sampan.storage.cacher import ObjectSelection, WatchQuery  # noqa: E402
from sampan.testing.registry_conformance import Api, RegistrySubject  # noqa: E402
from tests.apiserver.registry.subjects import GADGETS, config_maps, gadgets, pipelines  # noqa: E402

Scene = Callable[[Pipeline], Awaitable[None]]


def _play(scene: Scene) -> None:
    async def play() -> None:
        async with pipelines() as (pipeline,):
            await scene(pipeline)

    asyncio.run(asyncio.wait_for(play(), 60))


def _leases() -> RegistrySubject:
    return RegistrySubject(
        open=pipelines,  # type: ignore[arg-type]
        path="/apis/coordination.k8s.io/v1/namespaces/default/leases",
        content=lambda number: {"spec": {"leaseTransitions": number}},
        number=lambda value: int(value["spec"]["leaseTransitions"]),
    )


def test_a_generated_name_that_is_taken_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    names = iter(["x-1", "x-1", "x-1", "x-2"] + ["x-1"] * 100)
    monkeypatch.setattr(store_module, "generated_name", lambda prefix: next(names))

    async def scene(pipeline: Pipeline) -> None:
        api = Api(pipeline, config_maps())
        sent = api.subject.new("", generateName="x-")
        created = [(await api.create(sent)).value["metadata"] for _ in range(2)]
        assert [meta["name"] for meta in created] == ["x-1", "x-2"]
        assert created[0]["uid"] != created[1]["uid"]
        full = await api.create(sent)
        assert full.code == 409
        assert "the server was not able to generate a unique name for the object" in full.message
        assert full.value["details"]["retryAfterSeconds"] == 1
        left = len(list(names))
        assert left == 100 - 8, "eight names are tried"

    _play(scene)


def test_an_update_makes_what_is_missing_where_the_kind_allows_it() -> None:
    async def scene(pipeline: Pipeline) -> None:
        api = Api(pipeline, _leases())
        created = await api.put("a", api.subject.new("a", 1, resourceVersion="77"))
        assert created.code == 201, created.value
        assert created.version != "77"
        assert (await api.put("b", api.subject.new("b", resourceVersion="x"))).code == 500
        mismatched_uid = await api.put("b", api.subject.new("b", uid="1-2-3"))
        assert mismatched_uid.code == 409
        assert mismatched_uid.message.endswith("UID in precondition: 1-2-3, UID in object meta: ")
        dry = await api.put("b", api.subject.new("b"), "dryRun=All")
        assert dry.code == 201
        assert (await api.get("b")).code == 404
        again = await api.put("a", api.subject.new("a", 2))
        assert again.code == 422, "once it is there, the version counts"
        assert (await api.merge("b", {})).code == 404, "a patch makes nothing"

    _play(scene)


def test_of_many_updates_that_make_an_object_one_does() -> None:
    async def scene(pipeline: Pipeline) -> None:
        api = Api(pipeline, _leases())
        replies = await asyncio.gather(*(api.put("a", api.subject.new("a", n)) for n in range(10)))
        assert sorted(reply.code for reply in replies) == [201] + [422] * 9

    _play(scene)


class _Taking(Strategy):
    """Takes something for every write, and notes how each ended."""

    def __init__(self) -> None:
        self.ended: list[bool] = []
        self.released: list[str] = []
        self.allocations = 0

    async def begin_write(self, ctx: Context, obj: Any, old: Any | None) -> FinishFunc | None:
        self.allocations += 1

        async def finish(is_done: bool) -> None:
            self.ended.append(is_done)

        return finish

    async def after_delete(self, ctx: Context, obj: Any) -> None:
        self.released.append(obj.metadata.name)


def test_what_was_taken_is_given_back_if_the_write_fails() -> None:
    async def scene(pipeline: Pipeline) -> None:
        taking = _Taking()
        pipeline.endpoints.registry.set_behaviour(GADGETS, ResourceBehaviour(strategy=taking))
        api = Api(pipeline, gadgets())
        await api.created("a", 1)
        assert (await api.create(api.subject.new("a"))).code == 409
        assert (await api.create(api.subject.new("B"))).code == 422
        assert (await api.merge("a", api.subject.content(2))).code == 200
        assert (await api.merge("a", {"metadata": {"labels": {"a b": ""}}})).code == 422
        assert (await api.delete("a", {"dryRun": ["All"]})).code == 200
        assert taking.released == []
        assert (await api.delete("a")).code == 200
        assert taking.released == ["a"]
        # The refused change was tried from the cache; the store showed the same, so it was not tried again.
        assert taking.ended == [True, False, False, True, False]
        assert taking.allocations == len(taking.ended)

    _play(scene)


class _Graceful(Strategy):
    def grace_s(self, ctx: Context, obj: Any, requested: int | None) -> int | None:
        return 5 if requested is None else requested


def test_a_deletion_without_grace_is_seen_in_two_steps() -> None:
    async def scene(pipeline: Pipeline) -> None:
        registry = pipeline.endpoints.registry
        registry.set_behaviour(GADGETS, ResourceBehaviour(strategy=_Graceful()))
        api = Api(pipeline, gadgets())
        first = await api.created("a", 1)
        query = WatchQuery(
            selection=ObjectSelection(namespace="default"), resource_version=first["metadata"]["resourceVersion"]
        )
        async with registry.open_store(GADGETS).cacher.watch(query) as watch:
            assert (await api.delete("a", {"gracePeriodSeconds": 0})).code == 200
            await api.created("end")
            calls: list[tuple[str, bool]] = []
            while len(calls) < 3:
                calls += [(event.type, b"deletionTimestamp" in event.item.body) for event in await anext(aiter(watch))]
        assert calls == [("MODIFIED", True), ("DELETED", True), ("ADDED", False)]

    _play(scene)


def test_a_grace_runs_until_it_is_shortened() -> None:
    async def scene(pipeline: Pipeline) -> None:
        pipeline.endpoints.registry.set_behaviour(GADGETS, ResourceBehaviour(strategy=_Graceful()))
        api = Api(pipeline, gadgets())
        await api.created("a", 1)
        marked = (await api.delete("a")).value
        assert marked["metadata"]["deletionGracePeriodSeconds"] == 5
        assert (await api.delete("a")).value == marked
        assert (await api.delete("a", {"gracePeriodSeconds": 3})).value["metadata"]["deletionGracePeriodSeconds"] == 3
        dry = await api.delete("a", {"gracePeriodSeconds": 0, "dryRun": ["All"]})
        assert dry.value["kind"] == "Status"
        assert (await api.get("a")).value["metadata"]["deletionGracePeriodSeconds"] == 3
        assert (await api.delete("a", {"gracePeriodSeconds": 0})).code == 200
        assert (await api.get("a")).code == 404

    _play(scene)


def test_what_waits_for_its_dependents_was_accepted() -> None:
    async def scene(pipeline: Pipeline) -> None:
        api = Api(pipeline, config_maps())
        await api.created("a", finalizers=["example.com/wait"])
        assert (await api.delete("a", {"orphanDependents": False})).code == 202

    _play(scene)


def test_a_collection_with_an_object_that_is_refused() -> None:
    class Refusing(Strategy):
        def mark_deleted(self, ctx: Context, obj: Any, **_: Any) -> Any:
            raise errors.forbidden("gadgets", obj.metadata.name, "it is needed")

    async def scene(pipeline: Pipeline) -> None:
        pipeline.endpoints.registry.set_behaviour(GADGETS, ResourceBehaviour(strategy=Refusing()))
        api = Api(pipeline, gadgets())
        for name in ("a", "b"):
            await api.created(name)
        reply = await api.delete("")
        assert (reply.code, reply.value["reason"]) == (403, "Forbidden")

    _play(scene)


def test_jobs_and_replication_controllers_leave_their_pods() -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    job_template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    cases = {
        "/apis/batch/v1/namespaces/default/jobs": ({"spec": {"template": job_template}}, True),
        "/api/v1/namespaces/default/replicationcontrollers": ({"spec": {"template": template}}, False),
    }

    async def scene(pipeline: Pipeline) -> None:
        for path, (content, is_warned) in cases.items():
            subject = RegistrySubject(open=pipelines, path=path, content=lambda n: {}, number=int, fixed=content)  # type: ignore[arg-type]
            api = Api(pipeline, subject)
            await api.created("a")
            reply = await api.delete("a")
            assert reply.value["metadata"]["finalizers"] == ["orphan"], reply.value
            assert bool(reply.warnings) == is_warned
            assert (await api.delete("a", {"propagationPolicy": "Background"})).warnings == []
            assert (await api.get("a")).code == 404

    _play(scene)


@pytest.mark.parametrize("name", ["a%2525b", ".", "..%"])
def test_names_that_no_object_can_have(name: str) -> None:
    async def scene(pipeline: Pipeline) -> None:
        api = Api(pipeline, config_maps())
        decoded = name.replace("%2525", "%25")
        for reply in (await api.get(decoded), await api.merge(decoded, {}), await api.delete(decoded)):
            assert reply.code == 400, reply.value
            assert reply.message.startswith("Name parameter invalid: ")

    _play(scene)
