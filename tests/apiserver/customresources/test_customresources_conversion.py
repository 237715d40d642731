"""Versions of a custom resource that a webhook converts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sampan.testing import Cluster
from tests.apiserver.customresources.custom_resource_server import (
    APPLY,
    BOXES,
    DEFINITIONS,
    GROUP,
    MERGE,
    CustomServer,
    box,
    custom_server,
    definition,
    port_of,
    version,
)
from tests.apiserver.http.wire import Wire
from tests.apiserver.webhook_server import Respond, WebhookServer, json_patch, webhook_server

BETA = BOXES.replace("/v1/", "/v1beta1/")


@asynccontextmanager
async def server_with_conversion_webhook(
    directory: Path, respond: Respond
) -> AsyncIterator[tuple[CustomServer, WebhookServer, int]]:
    """Run a server with a custom resource and its conversion webhook, which stops after the server."""
    async with webhook_server(directory, respond) as hook:
        cluster = Cluster(insecure=True, controllers=())
        await asyncio.to_thread(cluster.__enter__)
        try:
            async with custom_server(port_of(cluster)) as server:
                await define(server, hook)
                yield server, hook, port_of(cluster)
        finally:
            await asyncio.to_thread(cluster.__exit__, None, None, None)


def convert(path: str, request: dict[str, Any]) -> dict[str, Any]:
    """Convert `host` and `port` of v1 to `hostPort` of v1beta1, and back."""
    converted = []
    for source in request["objects"]:
        spec = dict(source.get("spec", {}))
        if request["desiredAPIVersion"].endswith("v1beta1"):
            spec = {"hostPort": f"{spec.get('host')}:{spec.get('port')}"}
        else:
            host, _, port = spec.get("hostPort", "").partition(":")
            spec = {"host": host, "port": port}
        converted.append({**source, "apiVersion": request["desiredAPIVersion"], "spec": spec})
    return {"convertedObjects": converted, "result": {"status": "Success"}}


def fail(path: str, request: dict[str, Any]) -> dict[str, Any]:
    return {"convertedObjects": [], "result": {"status": "Failed", "message": "no idea"}}


async def define(server: CustomServer, hook: WebhookServer) -> None:
    custom = definition(version("v1"), version("v1beta1", storage=False))
    client = hook.client_config("/convert")
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": client}
    custom["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    await server.define(custom)


def test_objects_are_converted_both_ways(tmp_path: Path) -> None:
    async def main() -> None:
        async with server_with_conversion_webhook(tmp_path, convert) as (server, hook, _):
            await server.create(box("a", spec={"host": "h", "port": "1"}))
            assert not hook.requests
            shown = (await server.request("GET", f"{BETA}/a")).json
            assert (shown["apiVersion"], shown["spec"]) == (f"{GROUP}/v1beta1", {"hostPort": "h:1"})
            await server.create(box("b", "v1beta1", spec={"hostPort": "i:2"}), BETA)
            assert (await server.request("GET", f"{BOXES}/b")).json["spec"] == {"host": "i", "port": "2"}
            patched = await server.request("PATCH", f"{BETA}/a", {"spec": {"hostPort": "j:3"}}, MERGE)
            assert patched.json["spec"] == {"hostPort": "j:3"}
            metrics = (await server.request("GET", "/metrics")).text
            assert 'apiserver_conversion_webhook_request_total{result="success",failure_type=""}' in metrics
            labels = f'crd_name="boxes.{GROUP}",from_version="v1",to_version="v1beta1",succeeded="true"'
            assert f"apiserver_crd_conversion_webhook_duration_seconds_count{{{labels}}}" in metrics
            assert f'apiextensions_openapi_v2_regeneration_count{{crd="boxes.{GROUP}",reason="add"}} 2' in metrics
            listed = (await server.request("GET", BOXES)).json["items"]
            assert [item["spec"]["port"] for item in listed] == ["3", "2"]
            listed = (await server.request("GET", BETA)).json["items"]
            assert [item["spec"]["hostPort"] for item in listed] == ["j:3", "i:2"]
            assert (await server.request("DELETE", f"{BETA}/a")).code == 200
            assert (await server.request("GET", f"{BOXES}/a")).code == 404

    asyncio.run(main())


def test_apply_conflicts_with_field_managers_of_other_versions(tmp_path: Path) -> None:
    async def main() -> None:
        async with server_with_conversion_webhook(tmp_path, convert) as (server, _, _):
            applied = box("a", spec={"host": "h", "port": "1"})
            assert (await server.request("PATCH", f"{BOXES}/a?fieldManager=one", applied, APPLY)).code == 201
            other = box("a", "v1beta1", spec={"hostPort": "h:2"})
            refused = await server.request("PATCH", f"{BETA}/a?fieldManager=two", other, APPLY)
            assert refused.code == 409
            assert (
                refused.json["details"]["causes"][0]["field"] == ".spec.port"
            )  # in the version of the other field manager

    asyncio.run(main())


def test_a_watch_sees_converted_objects_in_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with server_with_conversion_webhook(tmp_path, convert) as (server, _, port), Wire(port) as wire:
            wire.send(f"GET {BETA}?watch=true&resourceVersion=0 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            await wire.head()
            for number in range(5):
                await server.create(box(f"b{number}", spec={"host": "h", "port": str(number)}))
            versions: list[str] = []
            async for event in wire.events():
                versions.append(event["object"]["spec"]["hostPort"])
                if len(versions) == 5:
                    break
            assert versions == [f"h:{number}" for number in range(5)]

    asyncio.run(main())


def test_a_failed_conversion_is_reported(tmp_path: Path) -> None:
    async def main() -> None:
        async with server_with_conversion_webhook(tmp_path, fail) as (server, _, _):
            await server.create(box("a"))
            text = f"Internal error occurred: conversion webhook for {GROUP}/v1, Kind=Box failed: no idea"
            for path in (f"{BETA}/a", BETA):
                response = await server.request("GET", path)
                assert (response.code, response.json["message"]) == (500, text)
            response = await server.request("POST", BETA, box("b", "v1beta1"))
            assert response.code == 500
            assert (await server.request("GET", f"{BOXES}/a")).code == 200
            assert (await server.request("GET", f"{DEFINITIONS}/boxes.{GROUP}")).code == 200

    asyncio.run(main())


def test_webhooks_for_one_version_receive_converted_requests_of_another_version(tmp_path: Path) -> None:
    """A rule for v1 also matches v1beta1 (matchPolicy Equivalent): the webhooks see, and change, the object in v1."""

    def respond(path: str, request: dict[str, Any]) -> dict[str, Any]:
        if path == "/convert":
            return convert(path, request)
        if path == "/mutate":
            return json_patch({"op": "replace", "path": "/spec/port", "value": "80"})
        return {"allowed": True}

    async def main() -> None:
        async with server_with_conversion_webhook(tmp_path, respond) as (server, hook, _):
            for kind, path in (("Mutating", "/mutate"), ("Validating", "/validate")):
                await register(server, kind, hook.client_config(path))
            created = await server.create(box("a", "v1beta1", spec={"hostPort": "h:1"}), BETA)
            assert (created["apiVersion"], created["spec"]) == (f"{GROUP}/v1beta1", {"hostPort": "h:80"})
            for path, port in (("/mutate", "1"), ("/validate", "80")):
                request = next(content for called, content in hook.requests if called == path)
                assert request["object"]["apiVersion"] == f"{GROUP}/v1"
                assert request["object"]["spec"] == {"host": "h", "port": port}
                assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v1", "v1beta1")

    asyncio.run(main())


async def register(server: CustomServer, kind: str, client_config: dict[str, Any]) -> None:
    rule = {"operations": ["*"], "apiGroups": [GROUP], "apiVersions": ["v1"], "resources": ["boxes"]}
    webhook = {
        "name": "a.example.com",
        "clientConfig": client_config,
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    path = f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}webhookconfigurations"
    created = await server.request("POST", path, {"metadata": {"name": "hooks"}, "webhooks": [webhook]})
    assert created.code == 201, created.text
