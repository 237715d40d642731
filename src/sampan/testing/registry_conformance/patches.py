"""PATCH with JSON patches and merge patches, which every resource supports."""

from sampan.testing.registry_conformance.subject import JSON_PATCH, MERGE_PATCH, Api, Check


async def merge_patch_changes_only_its_fields(api: Api) -> None:
    value = await api.create_object("a", 1, labels={"l": "1", "m": "2"}, annotations={"k": "v"})
    reply = await api.merge("a", {"metadata": {"labels": {"l": None, "n": "3"}}})
    assert reply.code == 200, reply.value
    assert reply.value["metadata"]["labels"] == {"m": "2", "n": "3"}, reply.value
    assert reply.value["metadata"]["annotations"] == {"k": "v"}
    assert api.subject.number(reply.value) == 1
    assert reply.value["metadata"]["uid"] == value["metadata"]["uid"]
    assert (await api.get("a")).value == reply.value


async def json_patch_operations_apply_in_order(api: Api) -> None:
    await api.create_object("a", 1)
    reply = await api.operate(
        "a",
        {"op": "add", "path": "/metadata/labels", "value": {"l": "1"}},
        {"op": "copy", "from": "/metadata/labels/l", "path": "/metadata/labels/m"},
        {"op": "test", "path": "/metadata/labels/m", "value": "1"},
        {"op": "remove", "path": "/metadata/labels/l"},
    )
    assert reply.code == 200, reply.value
    assert reply.value["metadata"]["labels"] == {"m": "1"}, reply.value


async def failing_json_patch_changes_nothing(api: Api) -> None:
    value = await api.create_object("a", 1)
    add = {"op": "add", "path": "/metadata/labels", "value": {"l": "1"}}
    for wrong in ({"op": "test", "path": "/metadata/name", "value": "b"}, {"op": "remove", "path": "/metadata/none"}):
        reply = await api.operate("a", add, wrong)
        assert reply.code == 422, reply.value
        assert reply.value["details"] == {}, reply.value
    assert (await api.get("a")).value == value


async def patch_reports_a_malformed_body_before_a_missing_object(api: Api) -> None:
    for media in (JSON_PATCH, MERGE_PATCH):
        reply = await api.send("PATCH", "a", "", b"{not json", media)
        assert (reply.code, reply.message) == (400, "invalid JSON patch"), reply.value
        invalid = b"{}" if media == JSON_PATCH else b"[]"
        assert (await api.send("PATCH", "a", "", invalid, media)).code == 404
    await api.create_object("a")
    for media in (JSON_PATCH, MERGE_PATCH):
        reply = await api.send("PATCH", "a", "", b"{}" if media == JSON_PATCH else b"[]", media)
        assert reply.code == 400, reply.value
        assert reply.message.startswith("error decoding patch: "), reply.value
    assert (await api.send("PATCH", "a", "", b"{}", "application/xml")).code == 415


async def patch_checks_the_resource_version(api: Api) -> None:
    value = await api.create_object("a", 1)
    first = value["metadata"]["resourceVersion"]
    precondition = {"metadata": {"resourceVersion": first}}
    assert (await api.merge("a", {**api.subject.content(2), **precondition})).code == 200
    late = await api.merge("a", {**api.subject.content(3), **precondition})
    assert (late.code, late.value["reason"]) == (409, "Conflict"), late.value
    assert (await api.merge("a", {"metadata": {"resourceVersion": "x"}})).code == 500


async def patch_cannot_change_name_namespace_or_uid(api: Api) -> None:
    await api.create_object("a", 1)
    named = await api.merge("a", {"metadata": {"name": "b"}})
    assert named.code == 400, named.value
    assert "does not match the name on the URL" in named.message, named.value
    created = await api.merge("a", {"metadata": {"namespace": "another"}})
    assert created.code == 400, created.value
    assert "does not match the namespace" in created.message, created.value
    twin = await api.merge("a", {"metadata": {"uid": "another"}})
    assert twin.code == 422, twin.value
    assert "metadata.uid: Invalid value" in twin.message, twin.value


async def json_patch_with_too_many_operations_is_rejected(api: Api) -> None:
    await api.create_object("a", 1)
    operation = {"op": "test", "path": "/metadata/name", "value": "a"}
    assert (await api.operate("a", *([operation] * 10_000))).code == 200
    reply = await api.operate("a", *([operation] * 10_001))
    assert reply.code == 413
    assert "maximum operations in a JSON patch is 10000, got 10001" in reply.message


async def patch_reports_unknown_fields_as_requested(api: Api) -> None:
    await api.create_object("a", 1)
    strict = await api.merge("a", {"metadata": {"of": 2}}, "fieldValidation=Strict")
    assert (strict.code, strict.value["reason"]) == (422, "Invalid"), strict.value
    assert strict.message.startswith(' "" is invalid: patch: Invalid value: "')
    assert "metadata.of" in strict.message
    assert strict.value["details"]["causes"][0]["field"] == "patch"
    warned = await api.merge("a", {"metadata": {"of": 2, "labels": {"l": "1"}}})
    assert (warned.code, warned.warnings) == (200, ['unknown field "metadata.of"']), warned.value
    twice = await api.send("PATCH", "a", "", b'{"metadata":{},"metadata":{"labels":{"l":"2"}}}', MERGE_PATCH)
    assert (twice.code, twice.warnings) == (200, ['duplicate field "metadata"']), twice.value
    odd = {"op": "test", "path": "/metadata/name", "value": "a", "why": 1}
    parts = await api.operate("a", odd)
    assert parts.warnings == ['json patch unknown field "[0].why"'], parts
    assert (await api.operate("a", odd, query="fieldValidation=Strict")).code == 422
    ignored = await api.merge("a", {"metadata": {"of": 2}}, "fieldValidation=Ignore")
    assert (ignored.code, ignored.warnings) == (200, [])


async def patch_result_of_a_wrong_type_is_invalid(api: Api) -> None:
    await api.create_object("a", 1)
    reply = await api.merge("a", {"metadata": {"labels": "text"}})
    assert (reply.code, reply.value["reason"]) == (422, "Invalid"), reply.value
    assert reply.value["details"]["causes"][0]["field"] == "patch"


CHECKS: tuple[Check, ...] = (
    merge_patch_changes_only_its_fields,
    json_patch_operations_apply_in_order,
    failing_json_patch_changes_nothing,
    patch_reports_a_malformed_body_before_a_missing_object,
    patch_checks_the_resource_version,
    patch_cannot_change_name_namespace_or_uid,
    json_patch_with_too_many_operations_is_rejected,
    patch_reports_unknown_fields_as_requested,
    patch_result_of_a_wrong_type_is_invalid,
)
