"""Deletion of objects whose stored value cannot be decoded."""

from typing import Any

import msgspec
import pytest

from sampan.api.feature_gates import FeatureGates
from sampan.apiserver.request.call import UserInfo
from sampan.machinery import errors
from sampan.storage.cacher.errors import CorruptValue
from tests.apiserver.in_process_server import InProcessClient, Reply, in_process_client, run

SECRETS = "/api/v1/namespaces/default/secrets"
KEY = "/registry/secrets/default/{}"
UNSAFE = {"kind": "DeleteOptions", "apiVersion": "v1", "ignoreStoreReadErrorWithClusterBreakingPotential": True}
ENABLED = FeatureGates(level=37)
DISABLED = FeatureGates({"AllowUnsafeMalformedObjectDeletion": False}, level=37)


async def _store(client: InProcessClient) -> None:
    """Store a readable and an unreadable secret, both with a finalizer."""
    for name in ("good", "bad"):
        await client.create(SECRETS, {"metadata": {"name": name, "finalizers": ["example.com/f"]}})
    entry, _ = await client.server.backend.get(KEY.format("bad"))
    assert entry is not None
    await client.server.backend.put(KEY.format("bad"), b"garbage", expected=entry.revision)


async def _delete(client: InProcessClient, path: str, options: dict[str, Any]) -> Reply:
    return await client.send("DELETE", path, msgspec.json.encode(options), content_type="application/json")


def test_only_unreadable_objects_are_deleted() -> None:
    async def work() -> None:
        async with in_process_client(feature_gates=ENABLED) as client:
            await _store(client)
            replies = {
                name: await _delete(client, f"{SECRETS}/{name}", body)
                for name, body in (
                    ("good", UNSAFE),
                    ("none", UNSAFE),
                    ("bad", {**UNSAFE, "dryRun": ["All"]}),
                )
            }
            assert {name: reply.code for name, reply in replies.items()} == {"good": 409, "none": 404, "bad": 200}
            assert replies["good"].json["message"] == (
                'Operation cannot be fulfilled on secrets "good": StorageError: invalid object, Code: 4, Key: '
                "/registry/secrets/default/good, ResourceVersion: 0, AdditionalErrorMsg: unsafe deletion is not "
                "allowed because the object is decodable from storage"
            )
            with pytest.raises(CorruptValue):
                await client.send("DELETE", f"{SECRETS}/bad")
            reply = await _delete(client, f"{SECRETS}/bad", UNSAFE)
            assert reply.json == {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Success",
                "details": {"name": "bad", "kind": "Secret"},
                "code": 200,
            }
            assert (await client.send("GET", f"{SECRETS}/bad")).code == 404

    run(work())


@pytest.mark.parametrize(
    ("path", "options", "text"),
    [
        (SECRETS, {}, "Invalid value: true: is not allowed with DELETECOLLECTION, try again after removing the option"),
        (
            f"{SECRETS}/x",
            {"gracePeriodSeconds": 1},
            "Invalid value: true: cannot be set together with .gracePeriodSeconds",
        ),
        (
            f"{SECRETS}/x",
            {"preconditions": {"uid": "u"}},
            "Invalid value: true: cannot be set together with .preconditions",
        ),
    ],
)
def test_some_options_are_not_allowed_with_it(path: str, options: dict[str, Any], text: str) -> None:
    async def work() -> None:
        async with in_process_client(feature_gates=ENABLED) as client:
            reply = await _delete(client, path, {**UNSAFE, **options})
            assert (reply.code, reply.json["details"]["causes"][0]["message"]) == (422, text)

    run(work())


def test_a_permission_of_its_own_is_required() -> None:
    async def work() -> None:
        async with in_process_client(feature_gates=ENABLED) as client:
            await _store(client)
            body = msgspec.json.encode(UNSAFE)
            call = client.make_call("DELETE", f"{SECRETS}/bad", body, {"content-type": "application/json"})
            call.user = UserInfo("joe")
            client.pipeline.classify(call)
            with pytest.raises(errors.Forbidden, match="not permitted to do"):
                await client.pipeline.endpoints.delete(call)

    run(work())


def test_the_option_is_ignored_if_the_gate_is_off() -> None:
    async def work() -> None:
        async with in_process_client(feature_gates=DISABLED) as client:
            await _store(client)
            with pytest.raises(CorruptValue):
                await _delete(client, f"{SECRETS}/bad", UNSAFE)
            reply = await _delete(client, f"{SECRETS}/good", UNSAFE)
            assert reply.json["metadata"]["deletionTimestamp"]

    run(work())
