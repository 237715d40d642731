"""Kinds without a module: their traits, and a status with a path of its own."""

import asyncio

import pytest

pytest.register_assert_rewrite("sampan.testing.registry_conformance")

from sampan.api.scheme import builtin_scheme  # noqa: E402
from sampan.apiserver.registry.kinds import MODULES  # noqa: E402
from sampan.apiserver.registry.traits import TRAITS  # noqa: E402
from sampan.testing.registry_conformance import Api, Subject  # noqa: E402
from tests.apiserver.registry.subjects import gadgets, pipelines  # noqa: E402


def test_traits_are_told_of_kinds_that_exist_and_have_no_module() -> None:
    known = {(resource.group, resource.plural) for resource in builtin_scheme({"api/all": True})}
    assert set(TRAITS) <= known
    assert not set(TRAITS) & set(MODULES), "the module says it"


def _subject(path: str) -> Subject:
    return Subject(open=pipelines, path=path, content=lambda n: {}, number=lambda value: 0)  # type: ignore[arg-type]


def test_a_webhook_configuration_counts_changes_of_its_webhooks() -> None:
    async def scene() -> None:
        async with pipelines() as (pipeline,):
            api = Api(pipeline, _subject("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"))
            made = await api.create({"metadata": {"name": "w", "generation": 5}})
            labelled = await api.merge("w", {"metadata": {"labels": {"l": "1"}}})
            changed = await api.merge("w", {"webhooks": [{"name": "a.b.c"}]})
            assert [reply.value["metadata"]["generation"] for reply in (made, labelled, changed)] == [1, 1, 2]
            without = {**changed.value, "metadata": {"name": "w"}}
            assert (await api.put("w", without)).code == 422, "an update needs the version"
            assert (await api.delete("w")).value["kind"] == "Status"

    asyncio.run(scene())


def test_a_flow_schema_takes_its_status_only_where_it_belongs() -> None:
    async def scene() -> None:
        async with pipelines() as (pipeline,):
            api = Api(pipeline, _subject("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"))
            status = {"status": {"conditions": [{"type": "Dangling", "status": "True"}]}}
            made = await api.create({"metadata": {"name": "f"}, "spec": {"matchingPrecedence": 5}, **status})
            assert "conditions" not in made.value.get("status", {})
            main = await api.merge("f", {**status, "spec": {"matchingPrecedence": 6}})
            assert main.value["spec"]["matchingPrecedence"] == 6
            assert "conditions" not in main.value.get("status", {})
            labels = {"metadata": {"labels": {"l": "1"}}}
            part = await api.merge("f/status", {**status, **labels, "spec": {"matchingPrecedence": 7}})
            assert part.value["status"]["conditions"][0]["type"] == "Dangling", part.value
            assert part.value["spec"]["matchingPrecedence"] == 6
            assert "labels" not in part.value["metadata"]
            assert part.value["metadata"]["generation"] == 2

    asyncio.run(scene())


def test_a_custom_object_takes_its_status_only_where_it_belongs() -> None:
    async def scene() -> None:
        async with pipelines() as (pipeline,):
            api = Api(pipeline, gadgets())
            made = await api.create({**api.subject.new("g", 1), "status": {"seen": 1}})
            assert "status" not in made.value
            assert made.value["spec"] == {"size": 1, "colour": "red"}, "the default of the schema"
            part = await api.merge(
                "g/status", {"status": {"seen": 2}, "spec": {"size": 9}, "metadata": {"labels": {"l": "1"}}}
            )
            assert (part.value["status"], part.value["spec"]["size"]) == ({"seen": 2}, 1), part.value
            assert "labels" not in part.value["metadata"]
            main = await api.merge("g", {"status": None, "spec": {"size": 2}})
            assert (main.value["status"], main.value["spec"]["size"]) == ({"seen": 2}, 2), main.value
            assert [reply.value["metadata"]["generation"] for reply in (made, part, main)] == [1, 1, 2]
            gone = await api.merge("g/status", {"status": None})
            assert "status" not in gone.value
            assert (await api.get("g/status")).value == gone.value

    asyncio.run(scene())
