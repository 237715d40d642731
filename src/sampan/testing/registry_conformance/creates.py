"""POST: fields that the server sets, validation, and generated names."""

from typing import Any

import msgspec

from sampan.testing.registry_conformance.subject import Api, Check


async def create_sets_system_metadata(api: Api) -> None:
    value = await api.create_object("a", 1, labels={"l": "1"})
    meta = value["metadata"]
    assert meta["uid"]
    assert meta["creationTimestamp"]
    assert int(meta["resourceVersion"]) > 0
    assert (meta["name"], meta["namespace"], meta["labels"]) == ("a", api.subject.namespace, {"l": "1"})
    assert meta.get("generation") == (1 if api.subject.counts_generation else None)
    assert api.subject.number(value) == 1
    assert (await api.get("a")).value == value


async def create_ignores_system_metadata_of_the_client(api: Api) -> None:
    sent: dict[str, Any] = {
        "uid": "mine",
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 5,
        "selfLink": "/somewhere",
    }
    meta = (await api.create_object("a", **sent))["metadata"]
    assert meta["uid"] != "mine"
    assert not meta["creationTimestamp"].startswith("2001")
    assert not {"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} & set(meta)


async def create_of_an_existing_name_is_rejected(api: Api) -> None:
    first = await api.create_object("a", 1)
    reply = await api.create(api.subject.build_object("a", 2))
    assert (reply.code, reply.value["reason"]) == (409, "AlreadyExists"), reply.value
    assert (await api.get("a")).value == first


async def create_is_rejected_while_the_object_is_being_deleted(api: Api) -> None:
    await api.create_object("a", finalizers=["example.com/wait"])
    await api.delete("a")
    reply = await api.create(api.subject.build_object("a"))
    assert reply.code == 409, reply.value
    assert reply.message.startswith("object is being deleted: "), reply.value


async def generate_name_adds_a_random_suffix(api: Api) -> None:
    replies = [await api.create(api.subject.build_object("", generateName="made-")) for _ in range(20)]
    names = {reply.value["metadata"]["name"] for reply in replies}
    assert all(reply.code == 201 for reply in replies)
    assert len(names) == 20
    assert all(name.startswith("made-") and len(name) == 10 for name in names), names


async def missing_or_malformed_name_is_rejected(api: Api) -> None:
    for name in ("", "No_Name", "x" * 300, "a/b"):
        reply = await api.create(api.subject.build_object(name))
        assert (reply.code, reply.value["reason"]) == (422, "Invalid"), reply.value
        assert any(cause["field"] == "metadata.name" for cause in reply.value["details"]["causes"])


async def malformed_metadata_is_rejected(api: Api) -> None:
    faulty: dict[str, Any] = {
        "labels": {"-": "x"},
        "annotations": {"a b": "x"},
        "finalizers": ["not a name"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "", "name": "o", "uid": "u"}],
    }
    for field, value in faulty.items():
        reply = await api.create(api.subject.build_object("a", **{field: value}))
        assert reply.code == 422, reply.value
        assert all(cause["field"].startswith(f"metadata.{field}") for cause in reply.value["details"]["causes"])


async def create_with_a_resource_version_is_rejected(api: Api) -> None:
    reply = await api.create(api.subject.build_object("a", resourceVersion="7"))
    assert reply.code == 500, reply.value
    assert "reason" not in reply.value, reply.value
    assert (await api.create(api.subject.build_object("a", resourceVersion="0"))).code == 201


async def create_with_another_namespace_is_rejected(api: Api) -> None:
    reply = await api.create(api.subject.build_object("a", namespace="another"))
    assert reply.code == 400, reply.value
    assert "does not match the namespace" in reply.message, reply.value


async def dry_run_create_stores_nothing(api: Api) -> None:
    reply = await api.create(api.subject.build_object("a"), "dryRun=All")
    assert reply.code == 201
    assert reply.value["metadata"]["uid"]
    assert "resourceVersion" not in reply.value["metadata"]
    assert (await api.get("a")).code == 404
    await api.create_object("a")
    assert (await api.create(api.subject.build_object("a"), "dryRun=All")).code == 409


async def unknown_fields_are_reported_as_requested(api: Api) -> None:
    body = {**api.subject.build_object("a"), "unheard": 1}
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


async def duplicate_fields_are_reported_as_requested(api: Api) -> None:
    body = msgspec.json.encode(api.subject.build_object("b")).replace(b'"name":"b"', b'"name":"a","name":"b"')
    strict = await api.send("POST", "", "fieldValidation=Strict", body)
    assert strict.code == 400, strict.value
    assert 'duplicate field "metadata.name"' in strict.message, strict.value
    warned = await api.send("POST", "", "", body)
    assert (warned.code, warned.warnings) == (201, ['duplicate field "metadata.name"']), warned.value
    assert warned.value["metadata"]["name"] == "b"


async def duplicate_owner_references_are_dropped(api: Api) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "1-2-3"}
    reply = await api.create(api.subject.build_object("a", ownerReferences=[owner, {**owner, "uid": "4"}, owner]))
    assert [reference["uid"] for reference in reply.value["metadata"]["ownerReferences"]] == ["1-2-3", "4"]
    assert len(reply.warnings) == 1
    assert reply.warnings[0].endswith("duplicate UID(s) observed: 1-2-3")


CHECKS: tuple[Check, ...] = (
    create_sets_system_metadata,
    create_ignores_system_metadata_of_the_client,
    create_of_an_existing_name_is_rejected,
    create_is_rejected_while_the_object_is_being_deleted,
    generate_name_adds_a_random_suffix,
    missing_or_malformed_name_is_rejected,
    malformed_metadata_is_rejected,
    create_with_a_resource_version_is_rejected,
    create_with_another_namespace_is_rejected,
    dry_run_create_stores_nothing,
    unknown_fields_are_reported_as_requested,
    duplicate_fields_are_reported_as_requested,
    duplicate_owner_references_are_dropped,
)
