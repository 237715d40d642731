"""POST: fields that the server sets, validation, and generated names."""

from typing import Any

import msgspec

from sampan.testing.registry_conformance.subject import Api, Check


async def a_new_object_is_completed(api: Api) -> None:
    value = await api.created("a", 1, labels={"l": "1"})
    meta = value["metadata"]
    assert meta["uid"]
    assert meta["creationTimestamp"]
    assert int(meta["resourceVersion"]) > 0
    assert (meta["name"], meta["namespace"], meta["labels"]) == ("a", api.subject.namespace, {"l": "1"})
    assert meta.get("generation") == (1 if api.subject.counts_generation else None)
    assert api.subject.number(value) == 1
    assert (await api.get("a")).value == value


async def what_only_the_server_knows_is_not_taken(api: Api) -> None:
    sent: dict[str, Any] = {
        "uid": "mine",
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 5,
        "selfLink": "/somewhere",
    }
    meta = (await api.created("a", **sent))["metadata"]
    assert meta["uid"] != "mine"
    assert not meta["creationTimestamp"].startswith("2001")
    assert not {"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} & set(meta)


async def a_name_is_taken_once(api: Api) -> None:
    first = await api.created("a", 1)
    reply = await api.create(api.subject.new("a", 2))
    assert (reply.code, reply.value["reason"]) == (409, "AlreadyExists"), reply.value
    assert (await api.get("a")).value == first


async def a_name_whose_object_is_leaving_is_still_taken(api: Api) -> None:
    await api.created("a", finalizers=["example.com/wait"])
    await api.delete("a")
    reply = await api.create(api.subject.new("a"))
    assert reply.code == 409, reply.value
    assert reply.message.startswith("object is being deleted: "), reply.value


async def names_are_made_from_a_prefix(api: Api) -> None:
    replies = [await api.create(api.subject.new("", generateName="made-")) for _ in range(20)]
    names = {reply.value["metadata"]["name"] for reply in replies}
    assert all(reply.code == 201 for reply in replies)
    assert len(names) == 20
    assert all(name.startswith("made-") and len(name) == 10 for name in names), names


async def a_name_must_be_there_and_sound(api: Api) -> None:
    for name in ("", "No_Name", "x" * 300, "a/b"):
        reply = await api.create(api.subject.new(name))
        assert (reply.code, reply.value["reason"]) == (422, "Invalid"), reply.value
        assert any(cause["field"] == "metadata.name" for cause in reply.value["details"]["causes"])


async def labels_annotations_and_finalizers_must_be_sound(api: Api) -> None:
    faulty: dict[str, Any] = {
        "labels": {"-": "x"},
        "annotations": {"a b": "x"},
        "finalizers": ["not a name"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "", "name": "o", "uid": "u"}],
    }
    for field, value in faulty.items():
        reply = await api.create(api.subject.new("a", **{field: value}))
        assert reply.code == 422, reply.value
        assert all(cause["field"].startswith(f"metadata.{field}") for cause in reply.value["details"]["causes"])


async def a_new_object_has_no_version(api: Api) -> None:
    reply = await api.create(api.subject.new("a", resourceVersion="7"))
    assert reply.code == 500, reply.value
    assert "reason" not in reply.value, reply.value
    assert (await api.create(api.subject.new("a", resourceVersion="0"))).code == 201


async def the_namespace_is_that_of_the_path(api: Api) -> None:
    reply = await api.create(api.subject.new("a", namespace="another"))
    assert reply.code == 400, reply.value
    assert "does not match the namespace" in reply.message, reply.value


async def a_dry_run_makes_nothing(api: Api) -> None:
    reply = await api.create(api.subject.new("a"), "dryRun=All")
    assert reply.code == 201
    assert reply.value["metadata"]["uid"]
    assert "resourceVersion" not in reply.value["metadata"]
    assert (await api.get("a")).code == 404
    await api.created("a")
    assert (await api.create(api.subject.new("a"), "dryRun=All")).code == 409


async def unknown_fields_are_reported_as_requested(api: Api) -> None:
    body = {**api.subject.new("a"), "unheard": 1}
    body["metadata"]["of"] = 2
    strict = await api.create(body, "fieldValidation=Strict")
    assert strict.code == 400, strict.value
    assert 'unknown field "unheard"' in strict.message, strict.value
    assert "strict decoding error: " in strict.message
    assert 'unknown field "metadata.of"' in strict.message
    warned = await api.create(body)
    assert warned.code == 201
    assert set(warned.warnings) == {'unknown field "unheard"', 'unknown field "metadata.of"'}
    assert "unheard" not in warned.value
    assert "of" not in warned.value["metadata"]
    await api.delete("a")
    ignored = await api.create(body, "fieldValidation=Ignore")
    assert (ignored.code, ignored.warnings) == (201, [])


async def repeated_fields_are_reported_as_requested(api: Api) -> None:
    body = msgspec.json.encode(api.subject.new("b")).replace(b'"name":"b"', b'"name":"a","name":"b"')
    strict = await api.send("POST", "", "fieldValidation=Strict", body)
    assert strict.code == 400, strict.value
    assert 'duplicate field "metadata.name"' in strict.message, strict.value
    warned = await api.send("POST", "", "", body)
    assert (warned.code, warned.warnings) == (201, ['duplicate field "metadata.name"']), warned.value
    assert warned.value["metadata"]["name"] == "b"


async def repeated_owners_are_dropped(api: Api) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "1-2-3"}
    reply = await api.create(api.subject.new("a", ownerReferences=[owner, {**owner, "uid": "4"}, owner]))
    assert [reference["uid"] for reference in reply.value["metadata"]["ownerReferences"]] == ["1-2-3", "4"]
    assert len(reply.warnings) == 1
    assert reply.warnings[0].endswith("duplicate UID(s) observed: 1-2-3")


CHECKS: tuple[Check, ...] = (
    a_new_object_is_completed,
    what_only_the_server_knows_is_not_taken,
    a_name_is_taken_once,
    a_name_whose_object_is_leaving_is_still_taken,
    names_are_made_from_a_prefix,
    a_name_must_be_there_and_sound,
    labels_annotations_and_finalizers_must_be_sound,
    a_new_object_has_no_version,
    the_namespace_is_that_of_the_path,
    a_dry_run_makes_nothing,
    unknown_fields_are_reported_as_requested,
    repeated_fields_are_reported_as_requested,
    repeated_owners_are_dropped,
)
