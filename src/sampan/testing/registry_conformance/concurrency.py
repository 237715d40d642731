"""Concurrent writers: no update is lost, no outdated one is accepted."""

import asyncio

from sampan.testing.registry_conformance.subject import Api, Check, merge_values

WRITERS = 20


async def no_concurrent_update_is_lost(api: Api) -> None:
    """Concurrent writers read, add one and put the object back, and retry on conflict."""
    await api.create_object("a", 0)

    async def increment() -> None:
        while True:
            value = (await api.get("a")).value
            number = api.subject.number(value) + 1
            reply = await api.put("a", merge_values(value, api.subject.content(number)))
            if reply.code == 200:
                return
            assert reply.code == 409, reply.value

    await asyncio.gather(*(increment() for _ in range(WRITERS)))
    assert api.subject.number((await api.get("a")).value) == WRITERS


async def no_concurrent_patch_with_resource_version_is_lost(api: Api) -> None:
    await api.create_object("a", 0)

    async def increment() -> None:
        while True:
            value = (await api.get("a")).value
            version = {"metadata": {"resourceVersion": value["metadata"]["resourceVersion"]}}
            reply = await api.merge("a", {**api.subject.content(api.subject.number(value) + 1), **version})
            if reply.code == 200:
                return
            assert reply.code == 409, reply.value

    await asyncio.gather(*(increment() for _ in range(WRITERS)))
    assert api.subject.number((await api.get("a")).value) == WRITERS


async def concurrent_patches_without_resource_version_all_succeed(api: Api) -> None:
    await api.create_object("a", 0)
    labels = {f"l{i}": str(i) for i in range(WRITERS)}
    replies = await asyncio.gather(*(api.merge("a", {"metadata": {"labels": {k: v}}}) for k, v in labels.items()))
    assert {reply.code for reply in replies} == {200}
    assert (await api.get("a")).value["metadata"]["labels"] == labels
    assert len({reply.version for reply in replies}) == WRITERS


async def one_of_many_creates_succeeds(api: Api) -> None:
    replies = await asyncio.gather(*(api.create(api.subject.build_object("a", i)) for i in range(WRITERS)))
    assert sorted(reply.code for reply in replies) == [201] + [409] * (WRITERS - 1)
    (winner,) = [reply for reply in replies if reply.code == 201]
    assert (await api.get("a")).value == winner.value


async def one_of_many_deletions_succeeds(api: Api) -> None:
    await api.create_object("a")
    replies = await asyncio.gather(*(api.delete("a") for _ in range(WRITERS)))
    assert sorted(reply.code for reply in replies) == [200] + [404] * (WRITERS - 1)


async def object_stays_deleted_despite_concurrent_patches(api: Api) -> None:
    """Whatever the order, the object is deleted at the end, and no update has recreated it."""
    await api.create_object("a", 0)
    changes = [api.merge("a", {"metadata": {"labels": {f"l{i}": "x"}}}) for i in range(20)]
    replies = await asyncio.gather(*changes, api.delete("a"), *[api.merge("a", api.subject.content(7))])
    assert replies[20].code == 200
    assert {reply.code for reply in replies} <= {200, 404}
    assert (await api.get("a")).code == 404


CHECKS: tuple[Check, ...] = (
    no_concurrent_update_is_lost,
    no_concurrent_patch_with_resource_version_is_lost,
    concurrent_patches_without_resource_version_all_succeed,
    one_of_many_creates_succeeds,
    one_of_many_deletions_succeeds,
    object_stays_deleted_despite_concurrent_patches,
)
