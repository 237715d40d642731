"""DELETE of an object and of a collection: finalizers, propagation policies, preconditions, dry runs."""

from sampan.testing.registry_conformance.subject import Api, Check, Value

WAIT = "example.com/wait"


async def deleted_object_is_not_found(api: Api) -> None:
    value = await api.create_object("a")
    reply = await api.delete("a")
    assert reply.code == 200, reply.value
    if reply.value["kind"] == "Status":
        assert reply.value["details"]["uid"] == value["metadata"]["uid"]
    assert (await api.get("a")).code == 404
    assert (await api.delete("a")).code == 404
    assert (await api.create_object("a"))["metadata"]["uid"] != value["metadata"]["uid"]


async def finalizers_delay_deletion(api: Api) -> None:
    value = await api.create_object("a", finalizers=[WAIT])
    marked = (await api.delete("a")).value
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    before = value["metadata"].get("generation")
    assert marked["metadata"].get("generation") == (before + 1 if before else None)
    assert (await api.delete("a")).value == marked, "a second deletion changes nothing"
    updated = await api.merge("a", {"metadata": {"finalizers": None}})
    assert updated.code == 200, updated.value
    assert "finalizers" not in updated.value["metadata"], updated.value
    assert (await api.get("a")).code == 404


async def finalizers_cannot_be_added_during_deletion(api: Api) -> None:
    await api.create_object("a", finalizers=[WAIT])
    await api.delete("a")
    reply = await api.merge("a", {"metadata": {"finalizers": [WAIT, "example.com/more"]}})
    assert reply.code == 422, reply.value
    assert "no new finalizers can be added" in reply.message, reply.value
    changed = await api.merge("a", {"metadata": {"labels": {"l": "1"}}})
    assert changed.code == 200, changed.value
    assert changed.value["metadata"]["labels"] == {"l": "1"}, changed.value
    assert changed.value["metadata"]["deletionTimestamp"]


async def deletion_timestamp_cannot_be_removed(api: Api) -> None:
    await api.create_object("a", finalizers=[WAIT])
    marked = (await api.delete("a")).value
    without = {key: value for key, value in marked["metadata"].items() if not key.startswith("deletion")}
    after = await api.put("a", {**marked, "metadata": without})
    assert after.value == marked, after.value


async def propagation_policy_sets_a_finalizer(api: Api) -> None:
    expected = {"Orphan": ["orphan"], "Foreground": ["foregroundDeletion"]}
    for policy, finalizers in expected.items():
        name = policy.lower()
        await api.create_object(name)
        reply = await api.delete(name, {"propagationPolicy": policy})
        assert reply.value["metadata"]["finalizers"] == finalizers, reply.value
        assert (await api.delete(name, {"propagationPolicy": "Background"})).code == 200
        assert (await api.get(name)).code == 404
    await api.create_object("a")
    old_word = await api.delete("a", {"orphanDependents": True})
    assert old_word.value["metadata"]["finalizers"] == ["orphan"], old_word.value


async def delete_checks_preconditions(api: Api) -> None:
    value = await api.create_object("a")
    meta = value["metadata"]
    for wrong in ({"uid": "another"}, {"resourceVersion": "1"}):
        reply = await api.delete("a", {"preconditions": wrong})
        assert (reply.code, reply.value["reason"]) == (409, "Conflict"), reply.value
    right = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    assert (await api.delete("a", {"preconditions": right})).code == 200


async def delete_options_in_the_body_override_the_query(api: Api) -> None:
    await api.create_object("a")
    assert (await api.delete("a", query="dryRun=All")).code == 200
    assert (await api.get("a")).code == 200
    assert (await api.delete("a", {}, "dryRun=All")).code == 200
    assert (await api.get("a")).code == 404


async def delete_options_of_any_api_version_are_accepted(api: Api) -> None:
    await api.create_object("a")
    reply = await api.delete("a", {"kind": "DeleteOptions", "apiVersion": "example.com/v7", "dryRun": ["All"]})
    assert reply.code == 200, reply.value
    for wrong in ({"dryRun": ["Some"]}, {"propagationPolicy": "Sideways"}):
        assert (await api.delete("a", wrong)).code == 422
    assert (await api.delete("a", {"kind": "Pod", "apiVersion": "v1"})).code == 400
    assert (await api.get("a")).code == 200


async def delete_collection_honours_selectors_and_limit(api: Api) -> None:
    for name in ("a", "b", "c", "d"):
        await api.create_object(name, labels={"half": "1" if name < "c" else "2"})
    await api.merge("b", {"metadata": {"finalizers": [WAIT]}})
    dry = await api.delete("", query="dryRun=All")
    assert _names(dry.value) == ["a", "b", "c", "d"] == _names((await api.list()).value)
    half = await api.delete("", query="labelSelector=half%3D1")
    assert _names(half.value) == ["a", "b"]
    assert not any("deletionTimestamp" in item["metadata"] for item in half.value["items"]), "as they were before"
    assert _names((await api.list()).value) == ["b", "c", "d"]
    assert _names((await api.delete("", query="limit=1&labelSelector=half%3D2")).value) == ["c"]
    assert _names((await api.delete("", {})).value) == ["b", "d"]
    assert _names((await api.list()).value) == ["b"]


def _names(value: Value) -> list[str]:
    return [item["metadata"]["name"] for item in value["items"]]


CHECKS: tuple[Check, ...] = (
    deleted_object_is_not_found,
    finalizers_delay_deletion,
    finalizers_cannot_be_added_during_deletion,
    deletion_timestamp_cannot_be_removed,
    propagation_policy_sets_a_finalizer,
    delete_checks_preconditions,
    delete_options_in_the_body_override_the_query,
    delete_options_of_any_api_version_are_accepted,
    delete_collection_honours_selectors_and_limit,
)
