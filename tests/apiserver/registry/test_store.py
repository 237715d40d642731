"""Behavior of the store that the conformance suite does not cover: collisions of generated names, updates that create,
allocations of a strategy, and deletion with a grace period."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

pytest.register_assert_rewrite("sampan.testing.registry_conformance")

from sampan.apiserver.pipeline import Pipeline  # noqa: E402
from sampan.apiserver.registry import store as store_module  # noqa: E402
from sampan.apiserver.registry.behavior import ResourceBehavior  # noqa: E402
from sampan.apiserver.registry.strategy import Context, FinishFunc, Strategy  # noqa: E402
from sampan.machinery import errors  # noqa: E402
from sampan.storage.cacher import ObjectSelection, WatchQuery  # noqa: E402
from sampan.testing.registry_conformance import Api, RegistrySubject  # noqa: E402
from tests.apiserver.registry.subjects import GADGETS, config_maps, gadgets, open_pipelines  # noqa: E402

Work = Callable[[Pipeline], Awaitable[None]]


def _run_with_pipeline(work: Work) -> None:
    async def main() -> None:
        async with open_pipelines() as (pipeline,):
            await work(pipeline)

    asyncio.run(asyncio.wait_for(main(), 60))


def _leases() -> RegistrySubject:
    return RegistrySubject(
        open=open_pipelines,  # type: ignore[arg-type]
        path="/apis/coordination.k8s.io/v1/namespaces/default/leases",
        content=lambda number: {"spec": {"leaseTransitions": number}},
        number=lambda value: int(value["spec"]["leaseTransitions"]),
    )


def test_generated_name_collision_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    names = iter(["x-1", "x-1", "x-1", "x-2"] + ["x-1"] * 100)
    monkeypatch.setattr(store_module, "generate_name", lambda prefix: next(names))

    async def work(pipeline: Pipeline) -> None:
        api = Api(pipeline, config_maps())
        sent = api.subject.build_object("", generateName="x-")
        created = [(await api.create(sent)).value["metadata"] for _ in range(2)]
        assert [meta["name"] for meta in created] == ["x-1", "x-2"]
        assert created[0]["uid"] != created[1]["uid"]
        full = await api.create(sent)
        assert full.code == 409
        assert "the server was not able to generate a unique name for the object" in full.message
        assert full.value["details"]["retryAfterSeconds"] == 1
        left = len(list(names))
        assert left == 100 - 8, "eight names are tried"

    _run_with_pipeline(work)


def test_put_creates_missing_object_if_the_kind_allows_create_on_update() -> None:
    async def work(pipeline: Pipeline) -> None:
        api = Api(pipeline, _leases())
        created = await api.put("a", api.subject.build_object("a", 1, resourceVersion="77"))
        assert created.code == 201, created.value
        assert created.version != "77"
        assert (await api.put("b", api.subject.build_object("b", resourceVersion="x"))).code == 500
        mismatched_uid = await api.put("b", api.subject.build_object("b", uid="1-2-3"))
        assert mismatched_uid.code == 409
        assert mismatched_uid.message.endswith("UID in precondition: 1-2-3, UID in object meta: ")
        dry = await api.put("b", api.subject.build_object("b"), "dryRun=All")
        assert dry.code == 201
        assert (await api.get("b")).code == 404
        again = await api.put("a", api.subject.build_object("a", 2))
        assert again.code == 422, "an update of an existing object requires a resource version"
        assert (await api.merge("b", {})).code == 404, "a patch does not create objects"

    _run_with_pipeline(work)


def test_only_one_of_concurrent_puts_creates_the_object() -> None:
    async def work(pipeline: Pipeline) -> None:
        api = Api(pipeline, _leases())
        replies = await asyncio.gather(*(api.put("a", api.subject.build_object("a", n)) for n in range(10)))
        assert sorted(reply.code for reply in replies) == [201] + [422] * 9

    _run_with_pipeline(work)


class _AllocatingStrategy(Strategy):
    """Allocates something for every write, and records how each write ended."""

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


def test_allocations_are_released_if_the_write_fails() -> None:
    async def work(pipeline: Pipeline) -> None:
        strategy = _AllocatingStrategy()
        pipeline.endpoints.registry.set_behavior(GADGETS, ResourceBehavior(strategy=strategy))
        api = Api(pipeline, gadgets())
        await api.create_object("a", 1)
        assert (await api.create(api.subject.build_object("a"))).code == 409
        assert (await api.create(api.subject.build_object("B"))).code == 422
        assert (await api.merge("a", api.subject.content(2))).code == 200
        assert (await api.merge("a", {"metadata": {"labels": {"a b": ""}}})).code == 422
        assert (await api.delete("a", {"dryRun": ["All"]})).code == 200
        assert strategy.released == []
        assert (await api.delete("a")).code == 200
        assert strategy.released == ["a"]
        # The rejected patch was tried on the cached object; the stored object was the same, so it was not tried again.
        assert strategy.ended == [True, False, False, True, False]
        assert strategy.allocations == len(strategy.ended)

    _run_with_pipeline(work)


class _Graceful(Strategy):
    def grace_s(self, ctx: Context, obj: Any, requested: int | None) -> int | None:
        return 5 if requested is None else requested


def test_watch_sees_modified_and_deleted_events_of_immediate_deletion() -> None:
    async def work(pipeline: Pipeline) -> None:
        registry = pipeline.endpoints.registry
        registry.set_behavior(GADGETS, ResourceBehavior(strategy=_Graceful()))
        api = Api(pipeline, gadgets())
        first = await api.create_object("a", 1)
        query = WatchQuery(
            selection=ObjectSelection(namespace="default"), resource_version=first["metadata"]["resourceVersion"]
        )
        async with registry.open_store(GADGETS).cacher.watch(query) as watch:
            assert (await api.delete("a", {"gracePeriodSeconds": 0})).code == 200
            await api.create_object("end")
            events: list[tuple[str, bool]] = []
            while len(events) < 3:
                events += [(event.type, b"deletionTimestamp" in event.item.body) for event in await anext(aiter(watch))]
        assert events == [("MODIFIED", True), ("DELETED", True), ("ADDED", False)]

    _run_with_pipeline(work)


def test_grace_period_can_be_shortened_by_later_deletes() -> None:
    async def work(pipeline: Pipeline) -> None:
        pipeline.endpoints.registry.set_behavior(GADGETS, ResourceBehavior(strategy=_Graceful()))
        api = Api(pipeline, gadgets())
        await api.create_object("a", 1)
        marked = (await api.delete("a")).value
        assert marked["metadata"]["deletionGracePeriodSeconds"] == 5
        assert (await api.delete("a")).value == marked
        assert (await api.delete("a", {"gracePeriodSeconds": 3})).value["metadata"]["deletionGracePeriodSeconds"] == 3
        dry = await api.delete("a", {"gracePeriodSeconds": 0, "dryRun": ["All"]})
        assert dry.value["kind"] == "Status"
        assert (await api.get("a")).value["metadata"]["deletionGracePeriodSeconds"] == 3
        assert (await api.delete("a", {"gracePeriodSeconds": 0})).code == 200
        assert (await api.get("a")).code == 404

    _run_with_pipeline(work)


def test_pending_delete_that_does_not_orphan_dependents_gets_202() -> None:
    async def work(pipeline: Pipeline) -> None:
        api = Api(pipeline, config_maps())
        await api.create_object("a", finalizers=["example.com/wait"])
        assert (await api.delete("a", {"orphanDependents": False})).code == 202

    _run_with_pipeline(work)


def test_delete_collection_reports_rejection_of_an_object() -> None:
    class Rejecting(Strategy):
        def mark_deleted(self, ctx: Context, obj: Any, **_: Any) -> Any:
            raise errors.forbidden("gadgets", obj.metadata.name, "it is needed")

    async def work(pipeline: Pipeline) -> None:
        pipeline.endpoints.registry.set_behavior(GADGETS, ResourceBehavior(strategy=Rejecting()))
        api = Api(pipeline, gadgets())
        for name in ("a", "b"):
            await api.create_object(name)
        reply = await api.delete("")
        assert (reply.code, reply.value["reason"]) == (403, "Forbidden")

    _run_with_pipeline(work)


def test_delete_of_jobs_and_replication_controllers_orphans_pods_by_default() -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    job_template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    cases = {
        "/apis/batch/v1/namespaces/default/jobs": ({"spec": {"template": job_template}}, True),
        "/api/v1/namespaces/default/replicationcontrollers": ({"spec": {"template": template}}, False),
    }

    async def work(pipeline: Pipeline) -> None:
        for path, (content, is_warned) in cases.items():
            subject = RegistrySubject(open=open_pipelines, path=path, content=lambda n: {}, number=int, fixed=content)  # type: ignore[arg-type]
            api = Api(pipeline, subject)
            await api.create_object("a")
            reply = await api.delete("a")
            assert reply.value["metadata"]["finalizers"] == ["orphan"], reply.value
            assert bool(reply.warnings) == is_warned
            assert (await api.delete("a", {"propagationPolicy": "Background"})).warnings == []
            assert (await api.get("a")).code == 404

    _run_with_pipeline(work)


@pytest.mark.parametrize("name", ["a%2525b", ".", "..%"])
def test_invalid_name_in_path_gets_400(name: str) -> None:
    async def work(pipeline: Pipeline) -> None:
        api = Api(pipeline, config_maps())
        decoded = name.replace("%2525", "%25")
        for reply in (await api.get(decoded), await api.merge(decoded, {}), await api.delete(decoded)):
            assert reply.code == 400, reply.value
            assert reply.message.startswith("Name parameter invalid: ")

    _run_with_pipeline(work)
