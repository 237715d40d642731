"""Discovery documents, compared with recordings of kube-apiserver."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from sampan.api.codec import protobuf
from sampan.api.schema.tree import Schema
from sampan.api.scheme import builtin_scheme
from tests.apiserver.in_process_server import Reply, in_process_client, run

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
SCENARIOS = ("discovery-core", "discovery-groups", "discovery-resources", "discovery-aggregated")


@pytest.mark.parametrize("name", SCENARIOS)
def test_discovery_documents_equal_recordings_of_kube_apiserver(reference_dir: Path, name: str) -> None:
    scenario = yaml.safe_load((reference_dir / f"recordings/{name}.yaml").read_text())
    recorded = json.loads((reference_dir / f"recordings/{name}.json").read_text())
    assert len(recorded) == len(scenario["steps"])

    async def check() -> None:
        async with in_process_client() as client:
            for step, expected in zip(scenario["steps"], recorded, strict=True):
                method, _, path = step["request"].partition(" ")
                if path.startswith("/version") or path == "/":
                    continue
                reply = await client.send(method, path, b"", accept=step.get("headers", {}).get("Accept", ""))
                assert (reply.code, _body(reply)) == (expected["status"], expected["body"]), step["name"]

    run(check())


def _body(reply: Reply) -> Any:
    try:
        document = reply.json
    except ValueError:
        return reply.body.decode()
    for address in document.get("serverAddressByClientCIDRs", ()):
        del address["serverAddress"]
    return document


def test_unchanged_aggregated_documents_get_304() -> None:
    async def check() -> None:
        async with in_process_client() as client:
            for path in ("/api", "/apis"):
                first = await client.get(path, accept=AGGREGATED)
                assert first.content_type == AGGREGATED
                assert (first.headers["Vary"], first.headers["Cache-Control"]) == ("Accept", "public")
                tag = first.headers["ETag"]
                assert len(tag) == 130
                again = await client.get(path, accept=AGGREGATED, if_none_match=tag)
                assert (again.code, again.body, again.headers["ETag"]) == (304, b"", tag)
                assert again.content_type == AGGREGATED

    run(check())


def test_documents_follow_added_and_removed_resources() -> None:
    async def check() -> None:
        scheme = builtin_scheme()
        configmaps = scheme.resource("", "v1", "configmaps")
        assert configmaps is not None
        lamps = dataclasses.replace(
            configmaps, group="example.com", plural="lamps", singular="lamp", kind="Lamp", schema=Schema(type="object")
        )
        async with in_process_client(scheme) as client:
            before = await client.get("/apis", accept=AGGREGATED)
            assert (await client.get("/apis/example.com")).body == b"404 page not found\n"
            scheme.add(lamps)
            after = await client.get("/apis", accept=AGGREGATED)
            assert after.headers["ETag"] != before.headers["ETag"]
            assert (await client.get("/apis/example.com")).json["preferredVersion"]["groupVersion"] == "example.com/v1"
            assert (await client.get("/apis/example.com/v1")).json["resources"][0]["name"] == "lamps"
            for path in ("/apis/example.com/v9", "/apis/example.com/v1/chairs"):
                assert (await client.get(path)).body == b"404 page not found\n"
            scheme.remove(lamps)
            assert (await client.get("/apis", accept=AGGREGATED)).headers["ETag"] == before.headers["ETag"]

    run(check())


def test_server_addresses_and_protobuf_encoding() -> None:
    async def check() -> None:
        async with in_process_client() as client:
            versions = (await client.get("/api")).json
            assert versions["serverAddressByClientCIDRs"] == [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}]
            message = await client.get("/apis/apps/v1", accept="application/vnd.kubernetes.protobuf")
            assert protobuf.decode(message.body) == (await client.get("/apis/apps/v1")).json

    run(check())
