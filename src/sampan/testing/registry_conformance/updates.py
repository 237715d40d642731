"""PUT: resource versions, immutable metadata, and that an update without changes writes nothing."""

from sampan.testing.registry_conformance.subject import Api, Check, Value, merged


def _changed(api: Api, value: Value, number: int, **metadata: object) -> Value:
    return merged(value, {"metadata": metadata, **api.subject.content(number)})


async def an_update_replaces(api: Api) -> None:
    value = await api.created("a", 1, labels={"l": "1"})
    sent = _changed(api, value, 2)
    del sent["metadata"]["labels"]
    reply = await api.put("a", sent)
    assert reply.code == 200, reply.value
    assert api.subject.number(reply.value) == 2, reply.value
    assert "labels" not in reply.value["metadata"]
    assert int(reply.version) > int(value["metadata"]["resourceVersion"])
    assert (await api.get("a")).value == reply.value


async def an_old_version_is_refused(api: Api) -> None:
    value = await api.created("a", 1)
    assert (await api.put("a", _changed(api, value, 2))).code == 200
    late = await api.put("a", _changed(api, value, 3))
    assert (late.code, late.value["reason"]) == (409, "Conflict"), late.value
    assert "the object has been modified" in late.message
    assert api.subject.number((await api.get("a")).value) == 2


async def a_version_is_a_number(api: Api) -> None:
    value = await api.created("a", 1)
    for version, reason in (("abc", "invalid syntax"), ("-1", "invalid syntax"), ("9" * 30, "value out of range")):
        reply = await api.put("a", _changed(api, value, 2, resourceVersion=version))
        assert reply.code == 500, reply.value
        assert "reason" not in reply.value, reply.value
        assert reply.message == f'strconv.ParseUint: parsing "{version}": {reason}'


async def an_update_without_a_version(api: Api) -> None:
    value = await api.created("a", 1)
    for version in ("", "0"):
        reply = await api.put("a", _changed(api, value, 2, resourceVersion=version))
        if api.subject.needs_version:
            assert reply.code == 422, reply.value
            assert "must be specified for an update" in reply.message, reply.value
        else:
            assert reply.code == 200, reply.value
            assert api.subject.number(reply.value) == 2, reply.value


async def an_update_says_whom_it_means(api: Api) -> None:
    value = await api.created("a", 1)
    other = await api.put("a", _changed(api, value, 2, name="b"))
    assert other.code == 400, other.value
    assert other.message.startswith("the name of the object (b) does not match"), other.value
    nameless = await api.put("a", _changed(api, value, 2, name=""))
    assert nameless.code == 400, nameless.value
    assert "was undeterminable: name must be provided" in nameless.message, nameless.value
    elsewhere = await api.put("a", _changed(api, value, 2, namespace="another"))
    assert elsewhere.code == 400, elsewhere.value
    assert "does not match the namespace" in elsewhere.message, elsewhere.value
    twin = await api.put("a", _changed(api, value, 2, uid="another"))
    assert twin.code == 409, twin.value
    assert "UID in precondition: another, UID in object meta: " in twin.message, twin.value
    missing = await api.put("b", _changed(api, value, 2, name="b"))
    assert (missing.code, missing.value["reason"]) == (404, "NotFound"), missing.value


async def what_only_the_server_knows_stays(api: Api) -> None:
    value = await api.created("a", 1)
    meta = value["metadata"]
    sent = {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 77, "uid": "", "selfLink": "/somewhere"}
    after = (await api.put("a", _changed(api, value, 1, **sent))).value["metadata"]
    assert {**after, "resourceVersion": ""} == {**meta, "resourceVersion": ""}
    marked = {"deletionTimestamp": "2101-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5}
    refused = await api.put("a", _changed(api, value, 1, resourceVersion=after["resourceVersion"], **marked))
    fields = [cause["field"] for cause in refused.value["details"]["causes"]]
    assert refused.code == 422, refused.value
    assert fields[:2] == fields[2:4] == ["metadata.deletionTimestamp", "metadata.deletionGracePeriodSeconds"]
    assert refused.message.count("metadata.deletionTimestamp") == 1


async def nothing_is_written_where_nothing_changes(api: Api) -> None:
    value = await api.created("a", 1)
    assert (await api.put("a", value)).value == value
    assert (await api.merge("a", api.subject.content(1))).value == value
    assert (await api.operate("a")).value == value
    assert (await api.list()).version == value["metadata"]["resourceVersion"]


async def a_dry_run_changes_nothing(api: Api) -> None:
    value = await api.created("a", 1)
    reply = await api.put("a", _changed(api, value, 2), "dryRun=All")
    assert reply.code == 200, reply.value
    assert api.subject.number(reply.value) == 2, reply.value
    assert reply.version == value["metadata"]["resourceVersion"]
    assert api.subject.number((await api.merge("a", api.subject.content(3), "dryRun=All")).value) == 3
    assert (await api.get("a")).value == value


async def the_generation_counts_changes_of_the_content(api: Api) -> None:
    value = await api.created("a", 1)
    steps = [
        api.subject.content(2),
        {"metadata": {"labels": {"l": "1"}}},
        api.subject.content(2),
        api.subject.content(3),
    ]
    generations = [value["metadata"].get("generation")]
    generations += [(await api.merge("a", step)).value["metadata"].get("generation") for step in steps]
    assert generations == ([1, 2, 2, 2, 3] if api.subject.counts_generation else [None] * 5)


async def errors_of_metadata_appear_twice_in_causes(api: Api) -> None:
    value = await api.created("a", 1)
    reply = await api.put("a", _changed(api, value, 2, labels={"a b": "x"}))
    causes = [cause["field"] for cause in reply.value["details"]["causes"]]
    assert reply.code == 422, reply.value
    assert len(causes) >= 3, reply.value
    assert set(causes) == {"metadata.labels"}, reply.value
    assert reply.message.count("metadata.labels") == 1


CHECKS: tuple[Check, ...] = (
    an_update_replaces,
    an_old_version_is_refused,
    a_version_is_a_number,
    an_update_without_a_version,
    an_update_says_whom_it_means,
    what_only_the_server_knows_stays,
    nothing_is_written_where_nothing_changes,
    a_dry_run_changes_nothing,
    the_generation_counts_changes_of_the_content,
    errors_of_metadata_appear_twice_in_causes,
)
