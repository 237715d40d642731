"""Encryption at rest, tested through the API: stored bytes, key rotation, and missing keys."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from sampan.api.types.core_v1 import ConfigMap, Secret
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.apiserver.bootstrap import SYSTEM
from sampan.apiserver.config.config_reload import INTERVAL_S
from sampan.apiserver.config.server_config import ServerConfig
from sampan.apiserver.request.call import Call, Query
from sampan.apiserver.response.responses import ObjectResponse, translate_storage_error
from sampan.apiserver.server import ApiServer
from sampan.host.clock import RealClock, VirtualClock
from sampan.machinery.client import Client
from sampan.storage.cacher import CorruptValue
from sampan.storage.encryption import ChangingEncryption, read_encryption_config
from sampan.storage.encryption.encryption_configuration import parse
from sampan.storage.sqlite import SqliteBackend

SECRETS = "/api/v1/namespaces/default/secrets"
SECRET_VALUE = base64.b64encode(b"under the third palm").decode()


def providers(*names: str) -> list[Any]:
    """Return provider configurations; `aesgcm/old` is a provider and the name from which its key is derived."""
    values: list[Any] = []
    for text in names:
        provider, _, name = text.partition("/")
        secret = base64.b64encode(name.encode().ljust(32, b".")).decode()
        values.append({provider: {"keys": [{"name": name, "secret": secret}]} if name else {}})
    return values


Send = Callable[..., Awaitable[Any]]


def serve(path: Path, names: tuple[str, ...], check: Callable[[Send], Awaitable[None]]) -> None:
    """Run `check` against a server on the database file, with these providers for secrets (none: no configuration)."""
    rules = [{"resources": ["secrets"], "providers": providers(*names)}]
    kind = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration"}
    config = ServerConfig(secure_port=0, encryption=parse({**kind, "resources": rules}) if names else None)

    async def run() -> None:
        clock = RealClock()
        async with (
            SqliteBackend(path=path, clock=clock) as backend,
            ApiServer(config=config, backend=backend, clock=clock) as server,
        ):

            async def send(method: str, target: str, value: Any = None) -> Any:
                body = json.dumps(value).encode() if value is not None else b""
                headers = {"Content-Type": "application/json"}
                call = Call(method=method, path=target, query=Query(""), headers=headers, body=body, user=SYSTEM)
                try:
                    response = await server.pipeline.serve_as(call)
                except CorruptValue as fault:
                    error = translate_storage_error(fault, call)
                    assert error is not None
                    raise error from fault
                return json.loads(response.raw) if isinstance(response, ObjectResponse) else response

            await check(send)

    asyncio.run(asyncio.wait_for(run(), 60))


def read_stored_bytes(path: Path) -> bytes:
    return b"".join(path.read_bytes() for path in path.parent.iterdir())


async def create_secret(send: Send) -> None:
    await send("POST", SECRETS, {"metadata": {"name": "map"}, "data": {"place": SECRET_VALUE}})


async def check_readable(send: Send) -> None:
    assert (await send("GET", f"{SECRETS}/map"))["data"]["place"] == SECRET_VALUE
    assert len((await send("GET", SECRETS)).result.items) == 1


async def update_without_changes(send: Send) -> None:
    secret = await send("GET", f"{SECRETS}/map")
    updated = await send("PUT", f"{SECRETS}/map", secret)
    assert updated["metadata"]["resourceVersion"] != secret["metadata"]["resourceVersion"]
    same = await send("PUT", f"{SECRETS}/map", updated)
    assert same["metadata"]["resourceVersion"] == updated["metadata"]["resourceVersion"], (
        "a second update changes nothing"
    )


@pytest.mark.parametrize("provider", ["aesgcm/k", "aescbc/k", "secretbox/k"])
def test_database_file_contains_no_plain_text(provider: str, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    serve(path, (provider,), create_secret)
    assert SECRET_VALUE.encode() not in read_stored_bytes(path)
    assert b"k8s:enc:%b:v1:k:" % provider.partition("/")[0].encode() in read_stored_bytes(path)
    serve(path, (provider,), check_readable)


def test_objects_are_readable_while_keys_are_rotated(tmp_path: Path) -> None:
    """At each step old values are readable, and an update without changes encrypts them with the new key, so that the
    old key can be removed."""
    path = tmp_path / "store.db"
    serve(path, (), create_secret)
    assert SECRET_VALUE.encode() in read_stored_bytes(path)
    serve(path, ("aescbc/first", "identity"), update_without_changes)
    serve(path, ("aescbc/first",), check_readable)
    serve(path, ("secretbox/second", "aescbc/first"), update_without_changes)
    serve(path, ("secretbox/second",), check_readable)
    serve(path, ("identity", "secretbox/second"), update_without_changes)
    serve(path, (), check_readable)


@pytest.mark.parametrize("names", [("aesgcm/other",), ("identity",), ()])
def test_access_to_an_object_whose_key_is_missing_is_an_error(
    names: tuple[str, ...], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "store.db"
    serve(path, ("aesgcm/k",), create_secret)

    async def check_errors(send: Send) -> None:
        for method, target, value in (
            ("GET", f"{SECRETS}/map", None),
            ("GET", SECRETS, None),
            ("PUT", f"{SECRETS}/map", {"metadata": {"name": "map"}}),
        ):
            with pytest.raises(Exception, match="it is encrypted with aesgcm key 'k', which no configured key"):
                await send(method, target, value)
        await send("POST", SECRETS, {"metadata": {"name": "new"}})
        assert (await send("GET", f"{SECRETS}/new"))["metadata"]["name"] == "new"

    serve(path, names, check_errors)
    assert SECRET_VALUE not in caplog.text


def test_changed_encryption_configuration_file_is_reloaded(tmp_path: Path) -> None:
    """The new file changes the key of secrets and adds the encryption of config maps."""
    file, database = tmp_path / "encryption.yaml", tmp_path / "state.db"

    def write(*rules: tuple[str, tuple[str, ...]]) -> None:
        listed = [{"resources": [plural], "providers": providers(*names)} for plural, names in rules]
        kind = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration"}
        file.write_text(json.dumps({**kind, "resources": listed}))

    async def run() -> None:
        clock = VirtualClock()
        changing = ChangingEncryption(read_encryption_config(file))
        config = ServerConfig(secure_port=0, encryption=changing, encryption_config=file)
        async with (
            SqliteBackend(path=database, clock=clock) as backend,
            ApiServer(config=config, backend=backend, clock=clock) as server,
        ):
            client = Client(transport=server.loopback(), clock=clock, component="test")
            secrets, maps = client.for_kind(Secret), client.for_kind(ConfigMap)
            meta = ObjectMeta(name="s", namespace="default")
            await secrets.create(Secret(metadata=meta, data={"k": b"under the third palm"}))
            assert b"aesgcm:v1:old:" in read_stored_bytes(database)
            write(("secrets", ("aesgcm/new", "aesgcm/old")), ("configmaps", ("secretbox/maps", "identity")))
            await clock.advance(INTERVAL_S)
            await secrets.update(await secrets.get("s", "default"))
            await maps.create(ConfigMap(metadata=meta, data={"k": "the map"}))
            assert b"aesgcm:v1:new:" in read_stored_bytes(database)
            assert b"secretbox:v1:maps:" in read_stored_bytes(database)
            assert (await secrets.get("s", "default")).data == {"k": b"under the third palm"}
            file.write_text("nonsense")
            await clock.advance(INTERVAL_S)
            assert (await maps.get("s", "default")).data == {"k": "the map"}

    write(("secrets", ("aesgcm/old",)))
    asyncio.run(asyncio.wait_for(run(), 60))
