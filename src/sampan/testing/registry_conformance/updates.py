"""PUT: resource versions, immutable metadata, and that an update without changes writes nothing."""

from sampan.testing.registry_conformance.subject import Api, Check, Value, merge_values


def _change(api: Api, value: Value, number: int, **metadata: object) -> Value:
    return merge_values(value, {"metadata": metadata, **api.subject.content(number)})


async def update_replaces_the_object(api: Api) -> None:
    value = await api.create_object("a", 1, labels={"l": "1"})
    sent = _change(api, value, 2)
    del sent["metadata"]["labels"]
    reply = await api.put("a", sent)
    assert reply.code == 200, reply.value
    assert api.subject.number(reply.value) == 2, reply.value
    assert "labels" not in reply.value["metadata"]
    assert int(reply.version) > int(value["metadata"]["resourceVersion"])
    assert (await api.get("a")).value == reply.value


async def update_with_an_old_resource_version_is_rejected(api: Api) -> None:
    value = await api.create_object("a", 1)
    assert (await api.put("a", _change(api, value, 2))).code == 200
    late = await api.put("a", _change(api, value, 3))
    assert (late.code, late.value["reason"]) == (409, "Conflict"), late.value
    assert "the object has been modified" in late.message
    assert api.subject.number((await api.get("a")).value) == 2


async def malformed_resource_version_is_rejected(api: Api) -> None:
    value = await api.create_object("a", 1)
    for version, reason in (("abc", "invalid syntax"), ("-1", "invalid syntax"), ("9" * 30, "value out of range")):
        reply = await api.put("a", _change(api, value, 2, resourceVersion=version))
        assert reply.code == 500, reply.value
        assert "reason" not in reply.value, reply.value
        assert reply.message == f'strconv.ParseUint: parsing "{version}": {reason}'


async def update_without_a_resource_version(api: Api) -> None:
    value = await api.create_object("a", 1)
    for version in ("", "0"):
        reply = await api.put("a", _change(api, value, 2, resourceVersion=version))
        if api.subject.needs_version:
            assert reply.code == 422, reply.value
            assert "must be specified for an update" in reply.message, reply.value
        else:
            assert reply.code == 200, reply.value
            assert api.subject.number(reply.value) == 2, reply.value


async def update_must_match_name_namespace_and_uid(api: Api) -> None:
    value = await api.create_object("a", 1)
    other = await api.put("a", _change(api, value, 2, name="b"))
    assert other.code == 400, other.value
    assert other.message.startswith("the name of the object (b) does not match"), other.value
    nameless = await api.put("a", _change(api, value, 2, name=""))
    assert nameless.code == 400, nameless.value
    assert "was undeterminable: name must be provided" in nameless.message, nameless.value
    elsewhere = await api.put("a", _change(api, value, 2, namespace="another"))
    assert elsewhere.code == 400, elsewhere.value
    assert "does not match the namespace" in elsewhere.message, elsewhere.value
    twin = await api.put("a", _change(api, value, 2, uid="another"))
    assert twin.code == 409, twin.value
    assert "UID in precondition: another, UID in object meta: " in twin.message, twin.value
    missing = await api.put("b", _change(api, value, 2, name="b"))
    assert (missing.code, missing.value["reason"]) == (404, "NotFound"), missing.value


async def update_keeps_system_metadata(api: Api) -> None:
    value = await api.create_object("a", 1)
    meta = value["metadata"]
    sent = {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 77, "uid": "", "selfLink": "/somewhere"}
    after = (await api.put("a", _change(api, value, 1, **sent))).value["metadata"]
    assert {**after, "resourceVersion": ""} == {**meta, "resourceVersion": ""}
    marked = {"deletionTimestamp": "2101-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5}
    refused = await api.put("a", _change(api, value, 1, resourceVersion=after["resourceVersion"], **marked))
    fields = [cause["field"] for cause in refused.value["details"]["causes"]]
    assert refused.code == 422, refused.value
    names = ["metadata.deletionTimestamp", "metadata.deletionGracePeriodSeconds"]
    assert fields == names * (2 if api.subject.repeats_errors else 1)
    assert refused.message.count("metadata.deletionTimestamp") == 1


async def update_without_changes_writes_nothing(api: Api) -> None:
    value = await api.create_object("a", 1)
    assert (await api.put("a", value)).value == value
    assert (await api.merge("a", api.subject.content(1))).value == value
    assert (await api.operate("a")).value == value
    assert (await api.list()).version == value["metadata"]["resourceVersion"]


async def dry_run_update_stores_nothing(api: Api) -> None:
    value = await api.create_object("a", 1)
    reply = await api.put("a", _change(api, value, 2), "dryRun=All")
    assert reply.code == 200, reply.value
    assert api.subject.number(reply.value) == 2, reply.value
    assert reply.version == value["metadata"]["resourceVersion"]
    assert api.subject.number((await api.merge("a", api.subject.content(3), "dryRun=All")).value) == 3
    assert (await api.get("a")).value == value


async def generation_counts_changes_of_the_spec(api: Api) -> None:
    value = await api.create_object("a", 1)
    steps = [
        api.subject.content(2),
        {"metadata": {"labels": {"l": "1"}}},
        api.subject.content(2),
        api.subject.content(3),
    ]
    generations = [value["metadata"].get("generation")]
    generations += [(await api.merge("a", step)).value["metadata"].get("generation") for step in steps]
    assert generations == ([1, 2, 2, 2, 3] if api.subject.counts_generation else [None] * 5)


async def errors_of_metadata_in_causes(api: Api) -> None:
    value = await api.create_object("a", 1)
    reply = await api.put("a", _change(api, value, 2, labels={"a b": "x"}))
    causes = [cause["field"] for cause in reply.value["details"]["causes"]]
    assert reply.code == 422, reply.value
    assert causes == ["metadata.labels"] * (3 if api.subject.repeats_errors else 1), reply.value
    assert reply.message.count("metadata.labels") == 1


CHECKS: tuple[Check, ...] = (
    update_replaces_the_object,
    update_with_an_old_resource_version_is_rejected,
    malformed_resource_version_is_rejected,
    update_without_a_resource_version,
    update_must_match_name_namespace_and_uid,
    update_keeps_system_metadata,
    update_without_changes_writes_nothing,
    dry_run_update_stores_nothing,
    generation_counts_changes_of_the_spec,
    errors_of_metadata_in_causes,
)
